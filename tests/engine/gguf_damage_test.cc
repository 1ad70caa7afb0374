// Files cut short or with random bytes: any outcome but a crash.
#include "base/philox.h"
#include "tests/engine/broken_model.h"

namespace tinyloop::engine {
namespace {

// A small file, so that each of its header's bytes can be tried.
GgufWriter small_model() {
  tinyloop::testing::ModelShape shape;
  shape.d_model = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.ffn = 32;
  shape.vocab = 260;
  return tinyloop::testing::random_model_writer(shape);
}

TEST(GgufTruncated, EveryLengthIsAnError) {
  const GgufWriter writer = small_model();
  const Bytes whole = writer.bytes();
  ASSERT_TRUE(read_broken(whole).has_value());
  const auto expect_refused = [&](size_t length) {
    const auto result = read_broken(std::span(whole).first(length));
    ASSERT_TRUE(result.has_error()) << length;
    ASSERT_EQ(result.error().code, errc::bad_model_file) << length;
  };
  for (size_t length = 0; length <= writer.header_bytes(); ++length) expect_refused(length);
  for (size_t length = writer.header_bytes(); length < whole.size(); length += 101) {
    expect_refused(length);
  }
}

// Whatever a header says, reading it ends with a model or an error.
TEST(GgufMutated, RandomHeaderBytesNeverCrash) {
  const GgufWriter writer = small_model();
  const Bytes whole = writer.bytes();
  const size_t header = writer.header_bytes();
  int refused = 0;
  constexpr uint64_t kSeed = 20240607;
  for (uint64_t round = 0; round < 4000; ++round) {
    Bytes bytes = whole;
    const auto words = base::philox(kSeed, base::RandomDomain::test, round, 0);
    for (uint32_t change = 0; change <= words[3] % 3; ++change) {
      const auto draw = base::philox(kSeed, base::RandomDomain::test, round, change + 1);
      // Half of the changes hit the first 2 KiB, where the lengths and types of keys are dense.
      const size_t range = draw[1] % 2 ? header : std::min<size_t>(header, 2048);
      const std::byte value[] = {std::byte(draw[3]), std::byte{0xff}, std::byte{0}};
      bytes[draw[0] % range] = value[draw[2] % 3];
    }
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " round " + std::to_string(round));
    const auto result = read_broken(bytes);
    if (result.has_error()) {
      ++refused;
      ASSERT_FALSE(result.error().detail.empty());
      ASSERT_NE(result.error().code, errc::internal);
    }
  }
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace tinyloop::engine
