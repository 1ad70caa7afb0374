// The forward path against the plain float64 reference, for every option of the file format.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"
#include "tests/support/test_device.h"
#include "tests/support/unroll.h"

namespace tinyloop::testing {
namespace {

struct Case {
  std::string name;
  ModelShape shape;
};

std::vector<Case> cases() {
  using kernels::WeightType;
  std::vector<Case> list;
  const auto add = [&](const char* name, auto change) {
    ModelShape shape;
    change(shape);
    list.push_back({name, shape});
  };
  add("default", [](ModelShape&) {});
  add("f32", [](ModelShape& s) { s.matrix_type = s.embedding_type = WeightType::f32; });
  add("f16", [](ModelShape& s) { s.matrix_type = s.embedding_type = WeightType::f16; });
  add("bf16", [](ModelShape& s) { s.matrix_type = s.embedding_type = WeightType::bf16; });
  add("q8_0", [](ModelShape& s) { s.matrix_type = WeightType::q8_0; });
  add("q4_0", [](ModelShape& s) { s.matrix_type = s.embedding_type = WeightType::q4_0; });
  add("untied", [](ModelShape& s) { s.tied = false; });
  add("no_output_norm", [](ModelShape& s) { s.output_norm = false; });
  add("loop_norm", [](ModelShape& s) { s.loop_norm = true; });
  add("post_norms", [](ModelShape& s) { s.post_norms = true; });
  add("head_norms", [](ModelShape& s) { s.qk_norm = QkNorm::per_head; });
  add("full_norms", [](ModelShape& s) { s.qk_norm = QkNorm::full_width; });
  add("relu2", [](ModelShape& s) { s.ffn_type = "relu2"; });
  add("softcap_and_scale", [](ModelShape& s) {
    s.logit_softcap = 5.0f;
    s.embedding_scale = 3.0f;
  });
  add("inject_add", [](ModelShape& s) { s.injection = "add"; });
  add("inject_linear", [](ModelShape& s) { s.injection = "linear"; });
  add("inject_diagonal", [](ModelShape& s) { s.injection = "diagonal"; });
  add("zeros", [](ModelShape& s) {
    s.injection = "add";
    s.initial_state = "zeros";
  });
  add("normal", [](ModelShape& s) {
    s.injection = "linear";
    s.initial_state = "normal";
  });
  add("no_outer_layers", [](ModelShape& s) {
    s.prelude = s.coda = 0;
    s.shared = 3;
    s.loop_norm = s.post_norms = true;
  });
  add("wide_heads", [](ModelShape& s) {
    s.heads = s.kv_heads = 2;
    s.head_dim = 34;  // 68 columns are no whole blocks of a quantised type
    s.matrix_type = WeightType::f32;
  });
  return list;
}

std::vector<int32_t> random_tokens(size_t count, int32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& t : tokens) t = std::uniform_int_distribution<int32_t>(0, vocab - 1)(random);
  return tokens;
}

RecordingClient score(EngineDriver& driver, const std::vector<int32_t>& tokens, int32_t loops,
                      int32_t window) {
  RecordingClient client(true);
  ScoreRequest request;
  request.tokens = tokens;
  request.loops = loops;
  request.cache_window = window;
  driver.admit(driver.check(request), client);
  driver.run();
  return client;
}

void expect_logits(const RecordingClient& client, const std::vector<std::vector<double>>& reference,
                   double tolerance) {
  ASSERT_EQ(client.logits.size() + 1, reference.size());
  for (size_t p = 0; p < client.logits.size(); ++p) {
    EXPECT_EQ(client.logit_positions[p], int32_t(p));
    for (size_t v = 0; v < client.logits[p].size(); ++v) {
      ASSERT_NEAR(double(client.logits[p][v]), reference[p][v],
                  tolerance * (1 + std::abs(reference[p][v])))
          << "position " << p << " token " << v;
    }
  }
}

// The root-mean-square error of all logits as a share of their root mean square.
double relative_error(const RecordingClient& client,
                      const std::vector<std::vector<double>>& reference) {
  double error = 0, size = 0;
  for (size_t p = 0; p < client.logits.size(); ++p) {
    for (size_t v = 0; v < client.logits[p].size(); ++v) {
      const double difference = double(client.logits[p][v]) - reference[p][v];
      error += difference * difference;
      size += reference[p][v] * reference[p][v];
    }
  }
  return std::sqrt(error / size);
}

// Those of the device, the reference first.
std::vector<ArithmeticMode> modes() {
  if (on_cuda()) return {ArithmeticMode::f16};
  return {ArithmeticMode::f32, ArithmeticMode::int8};
}

// Finds wrong arithmetic; what a mode costs in quality is tests/golden/quality_test.cc. Codes of 8
// bits are 2^-8 of their block's largest, numbers in FP16 are rounded by 2^-11 of themselves; a few
// dozen such roundings follow one another.
double most_error(ArithmeticMode mode) {
  return mode == ArithmeticMode::f32 ? 2e-4 : mode == ArithmeticMode::int8 ? 0.05 : 0.01;
}

class Forward : public ::testing::TestWithParam<Case> {};

TEST_P(Forward, AgreesWithTheReference) {
  const RandomModel model = write_random_model(GetParam().shape);
  const auto tokens = random_tokens(37, model.shape.vocab, 7);
  for (const ArithmeticMode mode : modes()) {
    EngineDriver driver(
        model.path(),
        device_options({.mode = mode, .max_seq_len = 64, .prefill_budget = 7, .cpu_threads = 1}));
    for (int32_t loops : {1, 3}) {
      for (int32_t window : {0, 5}) {
        SCOPED_TRACE(::testing::Message()
                     << to_string(mode) << ", loops " << loops << ", window " << window);
        const auto reference = reference_logits(model, tokens, loops, window);
        const RecordingClient client = score(driver, tokens, loops, window);
        if (mode == ArithmeticMode::f32) {
          expect_logits(client, reference, most_error(mode));
        } else {
          EXPECT_LE(relative_error(client, reference), most_error(mode));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Forward, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Every matrix of a type of its own: layers whose matrices read different forms of the same rows, a
// head that reads another form than the layers. The bits do not depend on how the rows are cut.
TEST(Forward, MixedWeightTypes) {
  using kernels::WeightType;
  constexpr WeightType kTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                   WeightType::q4_0, WeightType::q4_1, WeightType::q8_0};
  std::mt19937 random(5);
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ModelShape shape;
    shape.seed = uint64_t(round) + 1;
    shape.tied = round % 2 == 0;
    shape.output_norm = round % 3 != 0;
    shape.ffn_type = round % 4 == 3 ? "relu2" : "swiglu";
    shape.injection = std::array{"none", "add", "linear", "diagonal"}[size_t(round / 2 % 4)];
    for (const auto& [name, tensor] : write_random_model(shape).tensors) {
      if (tensor.rows > 1) shape.type_of[name] = kTypes[random() % std::size(kTypes)];
    }
    const RandomModel model = write_random_model(shape);
    const auto tokens = random_tokens(23, shape.vocab, uint32_t(round));
    EngineDriver whole(model.path(), device_options({.max_seq_len = 64, .cpu_threads = 2}));
    EngineDriver cut(model.path(),
                     device_options({.max_seq_len = 64, .prefill_chunk = 1, .cpu_threads = 1}));
    const RecordingClient a = score(whole, tokens, 3, 0), b = score(cut, tokens, 3, 0);
    EXPECT_LE(relative_error(a, reference_logits(model, tokens, 3, 0)),
              1.2 * most_error(modes().back()));
    EXPECT_EQ(a.logits_hash, b.logits_hash);
  }
}

TEST(Forward, ScoresAreTheLogitsLogProbabilities) {
  const RandomModel model = write_random_model();
  EngineDriver driver(
      model.path(), device_options({.mode = modes().front(), .max_seq_len = 64, .cpu_threads = 1}));
  const auto tokens = random_tokens(20, model.shape.vocab, 3);
  const RecordingClient client = score(driver, tokens, 2, 0);
  ASSERT_EQ(client.scores.size(), 19u);
  for (size_t p = 0; p < client.scores.size(); ++p) {
    double sum = 0;
    for (const float z : client.logits[p]) sum += std::exp(double(z));
    EXPECT_NEAR(client.scores[p], double(client.logits[p][size_t(tokens[p + 1])]) - std::log(sum),
                1e-5);
  }
}

// A looped file at depth n and the plain llama file of its 1 + 2n + 1 layers: the same bits.
TEST(Forward, UnrolledLlamaFileGivesTheSameBits) {
  const RandomModel model = write_random_model();
  const auto tokens = random_tokens(50, model.shape.vocab, 11);
  for (int32_t loops : {1, 2, 5}) {
    const auto file = write_unrolled(model.path(), loops);
    for (ArithmeticMode mode : modes()) {
      const ModelOptions options =
          device_options({.mode = mode, .max_seq_len = 64, .cpu_threads = 1});
      EngineDriver looped(model.path(), options), plain(file->path(), options);
      const RecordingClient a = score(looped, tokens, loops, 0), b = score(plain, tokens, 1, 0);
      EXPECT_EQ(a.logits_hash, b.logits_hash) << to_string(mode) << ", loops " << loops;
      EXPECT_EQ(a.logits, b.logits) << to_string(mode) << ", loops " << loops;
    }
  }
}

}  // namespace
}  // namespace tinyloop::testing
