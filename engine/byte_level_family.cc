#include "engine/byte_level_family.h"

namespace tinyloop::engine {

namespace {

constexpr ByteLevelFamily kGpt2{.first_piece = gpt2_piece};
constexpr ByteLevelFamily kSmollm{.first_piece = smollm_piece};
constexpr ByteLevelFamily kLlama3{
    .first_piece = llama3_piece, .whole_pieces = true, .adds_bos = true};
constexpr ByteLevelFamily kQwen2{.first_piece = qwen2_piece, .normalises = true};

struct NamedFamily {
  std::string_view name;
  const ByteLevelFamily* family;
};

constexpr NamedFamily kFamilies[] = {
    {"gpt-2", &kGpt2},    {"smollm", &kSmollm},   {"llama-bpe", &kLlama3},
    {"llama3", &kLlama3}, {"llama-v3", &kLlama3}, {"qwen2", &kQwen2},
};

}  // namespace

const ByteLevelFamily* find_byte_level_family(std::string_view name) noexcept {
  for (const NamedFamily& entry : kFamilies) {
    if (entry.name == name) return entry.family;
  }
  return nullptr;
}

std::string byte_level_family_names() {
  std::string names;
  for (const NamedFamily& entry : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

}  // namespace tinyloop::engine
