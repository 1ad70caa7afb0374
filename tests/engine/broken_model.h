// A good model file with one thing broken, and the error that must come of it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "tests/support/random_model.h"

namespace tinyloop::engine {

using tinyloop::testing::GgufWriter;
using Bytes = std::vector<std::byte>;
using Change = std::function<void(GgufWriter&)>;

struct Broken {
  const char* name;
  Change change;  // of the content
  errc code;
  const char* culprit;                     // part of the message
  std::function<void(Bytes&)> patch = {};  // of the written bytes, after the change
};

inline void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

inline Change u32(const char* key, uint32_t value) {
  return [=](GgufWriter& writer) { writer.u32(key, value); };
}
inline Change f32(const char* key, float value) {
  return [=](GgufWriter& writer) { writer.f32(key, value); };
}
inline Change text(const char* key, const char* value) {
  return [=](GgufWriter& writer) { writer.string(key, value); };
}
inline Change no_key(const char* key) {
  return [=](GgufWriter& writer) { writer.erase(key); };
}
inline Change no_tensor(const char* name) {
  return [=](GgufWriter& writer) { writer.erase_tensor(name); };
}
inline Change dims(const char* name, std::vector<uint64_t> value) {
  return [=](GgufWriter& writer) { writer.at(name).dims = value; };
}
inline Change type(const char* name, uint32_t value) {
  return [=](GgufWriter& writer) { writer.at(name).type = value; };
}
inline Change vector(const char* name, uint64_t length) {
  return [=](GgufWriter& writer) {
    writer.tensor(name, {length}, kernels::WeightType::f32, std::vector<float>(length, 1.0f));
  };
}
inline Change both(Change a, Change b) {
  return [=](GgufWriter& writer) {
    a(writer);
    b(writer);
  };
}
inline constexpr errc kBad = errc::bad_model_file;
inline constexpr errc kUnsupported = errc::unsupported_model;

inline base::Result<ModelSpec> read_broken(std::span<const std::byte> bytes) {
  const auto file = GgufFile::from_bytes(bytes, "broken.gguf");
  if (!file) return file.error();
  return read_model_spec(*file);
}

inline void expect_refused(const Broken& broken) {
  GgufWriter writer = tinyloop::testing::random_model_writer({});
  ASSERT_TRUE(read_broken(writer.bytes()).has_value());
  broken.change(writer);
  Bytes bytes = writer.bytes();
  if (broken.patch) broken.patch(bytes);
  const auto result = read_broken(bytes);
  ASSERT_TRUE(result.has_error());
  EXPECT_EQ(result.error().code, broken.code) << result.error().detail;
  EXPECT_NE(result.error().detail.find(broken.culprit), std::string::npos) << result.error().detail;
  EXPECT_TRUE(result.error().detail.starts_with("broken.gguf: ")) << result.error().detail;
}

inline std::string case_name(const ::testing::TestParamInfo<Broken>& info) {
  return info.param.name;
}

}  // namespace tinyloop::engine
