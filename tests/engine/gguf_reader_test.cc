// Reading good files: versions, every value type, lookups and their errors.
#include "engine/gguf_reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/model_spec.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/random_model.h"

namespace tinyloop::engine {
namespace {

using tinyloop::testing::GgufWriter;

GgufFile parse(const GgufWriter& writer) {
  return GgufFile::from_bytes(writer.bytes(), "memory").value();
}

template <class T>
void expect_error(const base::Result<T>& result, errc code, const std::string& part) {
  ASSERT_TRUE(result.has_error()) << part;
  EXPECT_EQ(result.error().code, code) << result.error().detail;
  EXPECT_NE(result.error().detail.find(part), std::string::npos) << result.error().detail;
}

template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

TEST(GgufReader, ReadsBothVersions) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer;
    writer.version = version;
    writer.string("general.name", "x");
    writer.tensor("t", {4, 2}, kernels::WeightType::f32, std::vector<float>(8, 1.5f));
    const GgufFile file = parse(writer);
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.string("general.name").value(), "x");
    const GgufTensor* tensor = file.find_tensor("t");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dims, (std::vector<uint64_t>{4, 2}));
    EXPECT_EQ(tensor->elements, 8u);
    EXPECT_EQ(tensor->bytes, 32u);
    float first = 0;
    std::memcpy(&first, tensor->data, sizeof first);
    EXPECT_EQ(first, 1.5f);
  }
}

TEST(GgufReader, IntegersOfAnyWidthConvert) {
  GgufWriter writer;
  writer.raw("u8", 0, bytes_of<uint8_t>({200}));
  writer.raw("i8", 1, bytes_of<int8_t>({-5}));
  writer.raw("u16", 2, bytes_of<uint16_t>({60000}));
  writer.raw("i16", 3, bytes_of<int16_t>({-300}));
  writer.u32("u32", 4000000000u);
  writer.i32("i32", -70000);
  writer.u64("u64", uint64_t{1} << 40);
  writer.raw("i64", 11, bytes_of<int64_t>({-(int64_t{1} << 40)}));
  writer.u64("huge", ~uint64_t{0});
  const GgufFile file = parse(writer);
  EXPECT_EQ(file.u32("u8").value(), 200u);
  EXPECT_EQ(file.i64("i8").value(), -5);
  EXPECT_EQ(file.u32("u16").value(), 60000u);
  EXPECT_EQ(file.i64("i16").value(), -300);
  EXPECT_EQ(file.u32("u32").value(), 4000000000u);
  EXPECT_EQ(file.i64("i32").value(), -70000);
  EXPECT_EQ(file.i64("u64").value(), int64_t{1} << 40);
  EXPECT_EQ(file.i64("i64").value(), -(int64_t{1} << 40));
  expect_error(file.u32("u64"), errc::bad_model_file, "key 'u64': 1099511627776, expected 0 to");
  expect_error(file.u32("i8"), errc::bad_model_file, "key 'i8': -5");
  expect_error(file.i64("huge"), errc::bad_model_file, "key 'huge'");
}

TEST(GgufReader, FloatsBooleansAndStrings) {
  GgufWriter writer;
  writer.f32("f32", 0.25f);
  writer.raw("f64", 12, bytes_of<double>({0.5}));
  writer.u32("int", 7);
  writer.boolean("yes", true);
  writer.boolean("no", false);
  writer.string("text", "caf\xc3\xa9");
  const GgufFile file = parse(writer);
  EXPECT_EQ(file.f32("f32").value(), 0.25f);
  EXPECT_EQ(file.f32("f64").value(), 0.5f);
  EXPECT_EQ(file.f32("int").value(), 7.0f);
  EXPECT_TRUE(file.boolean("yes").value());
  EXPECT_FALSE(file.boolean("no").value());
  EXPECT_EQ(file.string("text").value(), "caf\xc3\xa9");
  expect_error(file.u32("f32"), errc::bad_model_file,
               "memory: key 'f32': type f32, expected an integer");
  expect_error(file.u32("yes"), errc::bad_model_file, "type bool");
  expect_error(file.boolean("int"), errc::bad_model_file, "type u32, expected bool");
  expect_error(file.string("int"), errc::bad_model_file, "type u32, expected string");
  expect_error(file.f32("text"), errc::bad_model_file, "type string");
  expect_error(file.u32("none"), errc::bad_model_file, "memory: key 'none': is missing");
}

TEST(GgufReader, ArraysOfEveryKind) {
  GgufWriter writer;
  writer.strings("words", {"a", "", "long word"});
  writer.integers("ids", {3, -1, 2147483647});
  writer.floats("scores", {0.5f, -2.0f});
  // Arrays in an array: type array, 2 elements: [u8: 1, 2], [string: "x"].
  std::vector<std::byte> nested = bytes_of<uint32_t>({9, 2, 0, 0, 2, 0});
  for (const std::byte byte : bytes_of<uint8_t>({1, 2})) nested.push_back(byte);
  for (const std::byte byte : bytes_of<uint32_t>({8, 1, 0, 1, 0})) nested.push_back(byte);
  nested.push_back(std::byte{'x'});
  writer.raw("nested", 9, nested);
  const GgufFile file = parse(writer);
  EXPECT_EQ(file.strings("words").value(), (std::vector<std::string_view>{"a", "", "long word"}));
  EXPECT_EQ(file.integers("ids").value(), (std::vector<int32_t>{3, -1, 2147483647}));
  EXPECT_EQ(file.floats("scores").value(), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(file.find("nested")->count, 2u);
  EXPECT_TRUE(file.find("nested")->is_array_of(GgufType::array));
  expect_error(file.strings("ids"), errc::bad_model_file,
               "type array of i32, expected array of string");
  expect_error(file.integers("scores"), errc::bad_model_file, "type array of f32");
  expect_error(file.integers("words"), errc::bad_model_file, "type array of string");
  expect_error(file.floats("words"), errc::bad_model_file, "type array of string");
  expect_error(file.strings("gone"), errc::bad_model_file, "key 'gone': is missing");
}

TEST(GgufReader, IntegerArrayEntriesMustFit) {
  GgufWriter writer;
  std::vector<std::byte> bytes = bytes_of<uint32_t>({4, 2, 0, 5, 3000000000u});
  writer.raw("ids", 9, bytes);
  expect_error(parse(writer).integers("ids"), errc::bad_model_file,
               "entry 1 is 3000000000, expected -2^31 to 2^31 - 1");
}

TEST(GgufReader, ViewsSurviveAMove) {
  GgufWriter writer;
  writer.string("general.name", "kept");
  GgufFile first = parse(writer);
  const std::string_view name = first.string("general.name").value();
  const GgufFile second = std::move(first);
  EXPECT_EQ(name.data(), second.string("general.name").value().data());
  EXPECT_EQ(name, "kept");
}

TEST(GgufReader, AlignmentIsFollowed) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    GgufWriter writer;
    writer.alignment = alignment;
    writer.u32("general.alignment", alignment);
    writer.tensor("a", {3}, kernels::WeightType::f32, std::vector<float>{1, 2, 3});
    writer.tensor("b", {2}, kernels::WeightType::f32, std::vector<float>{4, 5});
    const GgufFile file = parse(writer);
    EXPECT_EQ(file.alignment(), alignment);
    float value = 0;
    std::memcpy(&value, file.find_tensor("b")->data, sizeof value);
    EXPECT_EQ(value, 4.0f);
  }
}

TEST(GgufReader, OpensAFileAndNamesWhatItCannotOpen) {
  GgufWriter writer;
  writer.string("general.name", "on disk");
  const auto temp = writer.write_temp("reader");
  const GgufFile file = GgufFile::open(temp->path()).value();
  EXPECT_EQ(file.string("general.name").value(), "on disk");
  EXPECT_EQ(file.size_bytes(), writer.bytes().size());

  const std::string missing = temp->path() + ".missing";
  expect_error(GgufFile::open(missing), errc::io_error, missing + ": cannot open: No such file");
  expect_error(GgufFile::open(::testing::TempDir()), errc::io_error, "is not a regular file");
  const tinyloop::testing::TempFile empty("empty");
  std::fclose(std::fopen(empty.path().c_str(), "w"));
  expect_error(GgufFile::open(empty.path()), errc::io_error, "is empty");
}

TEST(GgufReader, EveryWeightTypeKeepsItsBytes) {
  for (const uint32_t type : {0u, 1u, 2u, 3u, 8u, 30u}) {
    tinyloop::testing::ModelShape shape;
    shape.matrix_type = static_cast<kernels::WeightType>(type);
    GgufWriter writer = tinyloop::testing::random_model_writer(shape);
    const GgufFile file = parse(writer);
    const ModelSpec spec = read_model_spec(file).value();
    const TensorRef& down = spec.tensors.layers[2].down;
    const auto& written = writer.at("blk.2.ffn_down.weight");
    EXPECT_EQ(down.type, shape.matrix_type);
    EXPECT_EQ(down.rows, shape.d_model);
    EXPECT_EQ(down.cols, shape.ffn);
    ASSERT_EQ(down.bytes, written.data.size());
    EXPECT_EQ(std::memcmp(down.data, written.data.data(), down.bytes), 0);
  }
}

}  // namespace
}  // namespace tinyloop::engine
