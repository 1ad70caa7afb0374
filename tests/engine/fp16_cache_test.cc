// Which matrices get FP16 copies, and how much they may take. The CPU's backend stands for a
// device: what the copies hold is checked by tests/kernels/cuda_fast_test.cc.
#include "engine/fp16_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "engine/gguf_reader.h"
#include "engine/request.h"
#include "kernels/fp16_copy.h"
#include "tests/support/random_model.h"

namespace tinyloop::engine {
namespace {

using kernels::MemoryUse;
using kernels::WeightMatrix;

// The environment variable, as it was before at the end.
class Variable {
 public:
  explicit Variable(const char* value) {
    if (const char* old = std::getenv(kFp16CacheVariable)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static void set(const char* value) {
    value ? setenv(kFp16CacheVariable, value, 1) : unsetenv(kFp16CacheVariable);
  }
  std::optional<std::string> old_;
};

ModelOptions fast(std::optional<size_t> bytes = {}) {
  ModelOptions options;
  options.mode = ArithmeticMode::fast;
  options.fp16_cache_bytes = bytes;
  return options;
}

TEST(Fp16CacheLimit, TheOptionThenTheVariableThenTheLoopBlock) {
  {
    const Variable unset(nullptr);
    EXPECT_EQ(fp16_cache_limit(fast()).value(), std::nullopt);
    EXPECT_EQ(fp16_cache_limit(fast(7)).value(), size_t{7});
  }
  const Variable set("1048576");
  EXPECT_EQ(fp16_cache_limit(fast()).value(), size_t{1048576});
  EXPECT_EQ(fp16_cache_limit(fast(0)).value(), size_t{0});
}

TEST(Fp16CacheLimit, WhatIsNoNumberIsNamed) {
  for (const char* text :
       {"", "x", "12x", " 12", "-1", "+1", "1.5", "0x10", "1e9", "12 ", "18446744073709551616"}) {
    const Variable set(text);
    const auto limit = fp16_cache_limit(fast());
    ASSERT_TRUE(limit.has_error()) << text;
    EXPECT_EQ(limit.error().code, errc::invalid_argument);
    EXPECT_EQ(limit.error().detail, "TINYLOOP_FP16_CACHE_BYTES: '" + std::string(text) +
                                        "', allowed: 0 to 18446744073709551615");
    const auto checked = check_options(fast());
    ASSERT_TRUE(checked.has_error()) << text;
    EXPECT_EQ(checked.error().detail, limit.error().detail);
    // Nobody asks for it where the option is set, or in another mode.
    EXPECT_TRUE(check_options(fast(1)).has_value());
    EXPECT_TRUE(check_options({}).has_value());
  }
  const Variable most("18446744073709551615");
  EXPECT_EQ(fp16_cache_limit(fast()).value(), SIZE_MAX);
}

class Fp16Cache : public ::testing::Test {
 protected:
  static constexpr int32_t kShared = 2;

  static testing::ModelShape shape() {
    testing::ModelShape shape;
    shape.shared = kShared;
    shape.injection = "linear";
    return shape;
  }
  ModelWeights load() {
    const GgufFile file = GgufFile::open(model_.path()).value();
    return std::move(ModelWeights::upload(read_model_spec(file).value(), *backend_).value());
  }
  size_t used() const { return backend_->memory().used(MemoryUse::fp16_weight_cache); }

  static size_t bytes(std::initializer_list<const WeightMatrix*> matrices) {
    size_t sum = 0;
    for (const WeightMatrix* m : matrices) sum += kernels::fp16_copy_bytes(m->rows, m->cols);
    return sum;
  }
  static size_t bytes(const LayerWeights& l) {
    return bytes({&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down});
  }
  static size_t loop_bytes(const ModelWeights& weights) {
    size_t sum = bytes({&weights.inject});
    for (const LayerWeights& layer : weights.shared) sum += bytes(layer);
    return sum;
  }

  testing::RandomModel model_ = testing::write_random_model(shape());
  std::unique_ptr<kernels::Backend> backend_ =
      std::move(kernels::make_backend({.device = "cpu", .cpu_threads = 1}).value());
};

bool all_copied(const LayerWeights& l) {
  return l.q.fp16 && l.k.fp16 && l.v.fp16 && l.o.fp16 && l.gate.fp16 && l.up.fp16 && l.down.fp16;
}
bool none_copied(const LayerWeights& l) {
  return !l.q.fp16 && !l.k.fp16 && !l.v.fp16 && !l.o.fp16 && !l.gate.fp16 && !l.up.fp16 &&
         !l.down.fp16;
}

TEST_F(Fp16Cache, WithoutABoundTheLoopBlockAlone) {
  ModelWeights weights = load();
  add_fp16_copies(weights, *backend_, std::nullopt);
  EXPECT_NE(weights.inject.fp16, nullptr);
  for (const LayerWeights& layer : weights.shared) EXPECT_TRUE(all_copied(layer));
  EXPECT_TRUE(none_copied(weights.prelude.at(0)) && none_copied(weights.coda.at(0)));
  EXPECT_EQ(weights.head.fp16, nullptr);
  EXPECT_EQ(used(), loop_bytes(weights));
}

TEST_F(Fp16Cache, ALargeBoundIsForAllLayers) {
  ModelWeights weights = load();
  add_fp16_copies(weights, *backend_, SIZE_MAX);
  for (const auto* layers : {&weights.prelude, &weights.shared, &weights.coda}) {
    for (const LayerWeights& layer : *layers) EXPECT_TRUE(all_copied(layer));
  }
  EXPECT_EQ(weights.embedding.fp16, nullptr);
  EXPECT_EQ(used(), loop_bytes(weights) + bytes(weights.prelude[0]) + bytes(weights.coda[0]));
}

TEST_F(Fp16Cache, MatricesOfTheSameRowsLieOneBehindTheOther) {
  ModelWeights weights = load();
  add_fp16_copies(weights, *backend_, std::nullopt);
  const LayerWeights& layer = weights.shared[1];
  EXPECT_EQ(layer.k.fp16, layer.q.fp16 + bytes({&layer.q}));
  EXPECT_EQ(layer.v.fp16, layer.k.fp16 + bytes({&layer.k}));
  EXPECT_EQ(layer.up.fp16, layer.gate.fp16 + bytes({&layer.gate}));
}

TEST_F(Fp16Cache, ABoundIsKeptAndTheLoopBlockComesFirst) {
  size_t loop = 0, prelude = 0;
  {
    const ModelWeights weights = load();
    loop = loop_bytes(weights);
    prelude = bytes(weights.prelude[0]);
  }
  for (size_t limit :
       {size_t{0}, size_t{1}, loop / 2, loop - 1, loop, loop + prelude - 1, loop + prelude}) {
    ModelWeights weights = load();
    add_fp16_copies(weights, *backend_, limit);
    EXPECT_LE(used(), limit);
    if (limit < 2) {
      EXPECT_EQ(used(), 0u);
    }
    if (limit >= loop) {
      for (const LayerWeights& layer : weights.shared) EXPECT_TRUE(all_copied(layer)) << limit;
    }
    EXPECT_EQ(all_copied(weights.prelude[0]), limit >= loop + prelude) << limit;
    for (const LayerWeights& layer : weights.shared) {
      EXPECT_EQ(layer.q.fp16 == nullptr, layer.v.fp16 == nullptr) << limit;
      EXPECT_EQ(layer.gate.fp16 == nullptr, layer.up.fp16 == nullptr) << limit;
    }
  }
}

// Whichever allocation fails, all that was taken comes back with the weights.
TEST_F(Fp16Cache, WithoutMemoryEverythingIsGivenBack) {
  const size_t before = backend_->memory().used_total();
  for (uint64_t nth : {1, 2, 9}) {
    {
      ModelWeights weights = load();
      backend_->memory().fail_allocation(nth);
      try {
        add_fp16_copies(weights, *backend_, std::nullopt);
        ADD_FAILURE() << "no error at allocation " << nth;
      } catch (const base::Failure& failure) {
        EXPECT_EQ(failure.error().code, errc::out_of_memory);
        EXPECT_NE(failure.error().detail.find("FP16 weight cache: "), std::string::npos);
      }
    }
    EXPECT_EQ(backend_->memory().used_total(), before);
  }
}

}  // namespace
}  // namespace tinyloop::engine
