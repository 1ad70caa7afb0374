// Half of the changes keep the file's structure: one key, value or tensor changes and all lengths
// stay right, so that inputs reach what lies behind the header. The other half are libFuzzer's own.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "stress/fuzz/gguf_parts.h"
#include "stress/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tinyloop::fuzz {
namespace {

constexpr std::array kWords = {"none",   "add",    "linear", "diagonal", "prelude", "zeros",
                               "normal", "swiglu", "relu2",  "gate",     "gpt2",    "gpt-2",
                               "llama",  "yarn",   "a",      "\xc4\xa0", ""};
constexpr std::array<uint64_t, 14> kNumbers = {
    0, 1, 2, 3, 4, 8, 32, 64, 300, 65535, 65536, 1u << 31, 0x3f800000, ~uint64_t{0}};
constexpr std::array<uint32_t, 9> kTensorTypes = {0, 1, 2, 3, 8, 12, 30, 39, 999};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void change(GgufParts& parts) {
    if (!parts.tensors.empty() && pick(3) == 0) return change_tensor(parts);
    if (!parts.entries.empty()) change_entry(parts);
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  template <class T>
  auto& any(T& items) {
    return items[pick(items.size())];
  }

  std::string bytes_like(const std::string& text, size_t most) {
    std::string out = text;
    out.resize(std::max(most, text.size()) + 1);
    out.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(out.data()), text.size(), out.size()));
    return out;
  }

  void change_value(GgufParts::Entry& entry) {
    constexpr uint32_t kString = 8, kArray = 9;
    if (entry.type == kString) {
      const std::string text = entry.value.substr(sizeof(uint64_t));
      entry.value = string_value(pick(2) ? any(kWords) : bytes_like(text, text.size() + 8));
    } else if (entry.type == kArray) {
      // The elements alone, at the same length: the type and the count stay.
      constexpr size_t kHead = 12;
      const std::string head = entry.value.substr(0, kHead), old = entry.value.substr(kHead);
      std::string elements = old.empty() ? old : bytes_like(old, old.size());
      elements.resize(old.size());
      entry.value = head + elements;
    } else {
      const uint64_t number = any(kNumbers);
      std::memcpy(entry.value.data(), &number, entry.value.size());
    }
  }

  void change_entry(GgufParts& parts) {
    GgufParts::Entry& entry = any(parts.entries);
    switch (pick(6)) {
      case 0:
        std::swap(entry, parts.entries.back());
        return parts.entries.pop_back();
      case 1: {
        const GgufParts::Entry copy = any(parts.entries);
        entry.type = copy.type;
        entry.value = copy.value;
        return;
      }
      case 2:
        return parts.entries.push_back({bytes_like(entry.key, 64), entry.type, entry.value});
      default:
        return change_value(entry);
    }
  }

  void change_tensor(GgufParts& parts) {
    GgufParts::Tensor& tensor = any(parts.tensors);
    switch (pick(6)) {
      case 0:
        std::swap(tensor, parts.tensors.back());
        return parts.tensors.pop_back();
      case 1:
        tensor.name = pick(2) ? bytes_like(tensor.name, 64) : any(parts.tensors).name;
        return;
      case 2:
        tensor.type = any(kTensorTypes);
        return;
      case 3:
        tensor.offset = pick(2) ? any(parts.tensors).offset : uint64_t(any(kNumbers));
        return;
      case 4:
        tensor.dims = any(parts.tensors).dims;
        return;
      default:
        if (!tensor.dims.empty()) any(tensor.dims) = any(kNumbers);
    }
  }

  std::minstd_rand random_;
};

}  // namespace
}  // namespace tinyloop::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace tinyloop::fuzz;
  auto parts = seed % 2 == 0 ? split_gguf(std::as_bytes(std::span(data, size))) : std::nullopt;
  if (!parts) return LLVMFuzzerMutate(data, size, max_size);
  Mutator mutator(seed);
  for (unsigned i = 0; i <= seed / 2 % 3; ++i) mutator.change(*parts);
  const std::string changed = join_gguf(*parts);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
