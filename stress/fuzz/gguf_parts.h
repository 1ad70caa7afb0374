// A GGUF file in pieces, to be changed and put together again with right lengths. The reader takes
// what the loader takes; the writer writes whatever it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tinyloop::fuzz {

struct GgufParts {
  struct Entry {
    std::string key;
    uint32_t type = 0;
    std::string value;  // as it lies in the file
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    uint64_t offset = 0;
  };
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;
  std::string data;  // the data section
};

// nullopt: the loader refuses the header.
std::optional<GgufParts> split_gguf(std::span<const std::byte> bytes);
std::string join_gguf(const GgufParts& parts);

std::string string_value(const std::string& text);  // with its length before it

}  // namespace tinyloop::fuzz
