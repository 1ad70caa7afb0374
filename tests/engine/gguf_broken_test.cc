// Files that contradict the GGUF format or their own size.
#include <cstring>

#include "tests/engine/broken_model.h"

namespace tinyloop::engine {
namespace {

template <class T>
std::function<void(Bytes&)> patch_at(size_t offset, T value) {
  return [=](Bytes& bytes) { std::memcpy(bytes.data() + offset, &value, sizeof value); };
}

void nothing(GgufWriter&) {}
void no_value(GgufWriter& writer, uint32_t value_type) {
  writer.raw("extra", value_type, {});
}

// A value of type array whose elements are arrays, `depth` levels in all.
void deep_array(GgufWriter& writer, int depth) {
  Bytes bytes;
  for (int i = 0; i < depth; ++i) {
    const uint32_t element = i + 1 < depth ? 9 : 0;
    const uint32_t header[3] = {element, i + 1 < depth ? 1u : 0u, 0};
    const auto* from = reinterpret_cast<const std::byte*>(header);
    bytes.insert(bytes.end(), from, from + sizeof header);
  }
  writer.raw("extra.deep", 9, bytes);
}

void huge_array(GgufWriter& writer, uint32_t element) {
  const uint32_t header[3] = {element, 0, 0x40000000};
  const auto* from = reinterpret_cast<const std::byte*>(header);
  writer.raw("extra.huge", 9, {from, from + sizeof header});
}

std::vector<Broken> container_cases() {
  return {
      {"magic", nothing, kBad, "magic 'GGML', expected 'GGUF'", patch_at(0, uint32_t{0x4c4d4747})},
      {"version_1", nothing, kUnsupported, "GGUF version 1, expected 2 or 3",
       patch_at(4, uint32_t{1})},
      {"version_4", nothing, kUnsupported, "GGUF version 4, expected 2 or 3",
       patch_at(4, uint32_t{4})},
      {"big_endian", nothing, kUnsupported, "50331648 (a big-endian file)",
       patch_at(4, uint32_t{0x03000000})},
      {"tensor_count", nothing, kBad, "4611686018427387904 tensors",
       patch_at(8, uint64_t{1} << 62)},
      {"key_count", nothing, kBad, "18446744073709551615 keys", patch_at(16, ~uint64_t{0})},
      {"one_key_too_many", nothing, kBad, "reach past the end of the file at",
       [](Bytes& bytes) { ++reinterpret_cast<uint8_t&>(bytes[16]); }},
      {"key_length", nothing, kBad, "key number 0: 9223372036854775807 bytes at offset 32",
       patch_at(24, uint64_t{0x7fffffffffffffff})},
      {"key_length_overflow", nothing, kBad, "key number 0: 18446744073709551600 bytes",
       patch_at(24, ~uint64_t{15})},
      {"key_empty", u32("", 1), kBad, "name of 0 bytes, expected 1 to 65535"},
      {"key_twice", [](GgufWriter& writer) { writer.entries.push_back(writer.entries.front()); },
       kBad, "key 'general.architecture': appears twice"},
      {"value_type", [](GgufWriter& writer) { no_value(writer, 13); }, kBad,
       "key 'extra': value type 13, expected 0 to 12"},
      {"bool_value", [](GgufWriter& writer) { writer.raw("extra", 7, {std::byte{2}}); }, kBad,
       "key 'extra': bool value 2, expected 0 or 1"},
      {"array_depth", [](GgufWriter& writer) { deep_array(writer, 5); }, kBad,
       "key 'extra.deep': arrays nested more than 4 deep"},
      {"array_count", [](GgufWriter& writer) { huge_array(writer, 12); }, kBad,
       "key 'extra.huge': 4611686018427387904 array elements"},
      {"array_of_strings_count", [](GgufWriter& writer) { huge_array(writer, 8); }, kBad,
       "key 'extra.huge': 4611686018427387904 array elements"},
      {"array_of_arrays_count", [](GgufWriter& writer) { huge_array(writer, 9); }, kBad,
       "key 'extra.huge': 4611686018427387904 array elements"},
      {"alignment_zero", u32("general.alignment", 0), kBad, "key 'general.alignment': 0, expected"},
      {"alignment_odd", u32("general.alignment", 48), kBad,
       "key 'general.alignment': 48, expected a power of two"},
      {"alignment_huge", u32("general.alignment", 1u << 31), kBad, "2147483648, expected"},
      {"alignment_type", text("general.alignment", "32"), kBad, "a value of type string"},
  };
}

std::vector<Broken> placement_cases() {
  return {
      {"tensor_twice",
       [](GgufWriter& writer) { writer.tensors.push_back(writer.at("output_norm.weight")); }, kBad,
       "tensor 'output_norm.weight': appears twice"},
      {"tensor_name_empty", [](GgufWriter& writer) { writer.at("output_norm.weight").name = ""; },
       kBad, "name of 0 bytes, expected 1 to 64"},
      {"tensor_name_long",
       [](GgufWriter& writer) { writer.at("output_norm.weight").name = std::string(65, 'n'); },
       kBad, "name of 65 bytes, expected 1 to 64"},
      {"no_dims", dims("output_norm.weight", {}), kBad,
       "tensor 'output_norm.weight': 0 dimensions, expected 1 to 4"},
      {"five_dims", dims("output_norm.weight", {64, 1, 1, 1, 1}), kBad,
       "tensor 'output_norm.weight': 5 dimensions"},
      {"zero_dim", dims("output_norm.weight", {64, 0}), kBad, "[64, 0] has a dimension of 0"},
      {"dims_overflow", dims("output_norm.weight", {uint64_t{1} << 40, uint64_t{1} << 40}), kBad,
       "tensor 'output_norm.weight': shape [1099511627776, 1099511627776] has more than 2^62"},
      {"bytes_overflow", dims("output_norm.weight", {uint64_t{1} << 61}), kBad,
       "tensor 'output_norm.weight': shape [2305843009213693952] has more than 2^62 bytes"},
      {"partial_block", dims("blk.1.attn_q.weight", {48, 64}), kBad,
       "tensor 'blk.1.attn_q.weight': shape [48, 64]: the first dimension is not a multiple of 32, "
       "the block of Q4_1 (3)"},
      {"offset_unaligned",
       [](GgufWriter& writer) { writer.at("blk.0.attn_k.weight").offset_shift = 4; }, kBad,
       "tensor 'blk.0.attn_k.weight': offset"},
      {"offset_past_end",
       [](GgufWriter& writer) { writer.at("blk.0.attn_k.weight").offset_shift = 1 << 30; }, kBad,
       "tensor 'blk.0.attn_k.weight': offset"},
      {"offset_wraps",
       [](GgufWriter& writer) { writer.at("token_embd.weight").offset_shift = -32; }, kBad,
       "tensor 'token_embd.weight': offset 18446744073709551584"},
      {"tensors_overlap",
       [](GgufWriter& writer) { writer.at("blk.0.attn_k.weight").offset_shift = -32; }, kBad,
       "lies inside tensor 'blk.0.attn_q.weight'"},
      {"data_cut", nothing, kBad, "tensor 'blk.3.ffn_down.weight': offset",
       [](Bytes& bytes) { bytes.pop_back(); }},
  };
}

class GgufBroken : public ::testing::TestWithParam<Broken> {};

TEST_P(GgufBroken, IsRefusedByName) {
  expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Header, GgufBroken, ::testing::ValuesIn(container_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufBroken, ::testing::ValuesIn(placement_cases()), case_name);

}  // namespace
}  // namespace tinyloop::engine
