// Finds tokens that are written out in a text, such as "<|endoftext|>": leftmost first, and of
// those that begin at the same byte the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tinyloop::engine {

class SpecialTokens {
 public:
  struct Entry {
    std::string_view text;  // not empty; must outlive this object
    int32_t id;
  };
  struct Match {
    size_t begin;
    size_t length;
    int32_t id;
  };

  SpecialTokens() = default;
  explicit SpecialTokens(std::vector<Entry> entries);

  // The first match in `text` at or behind byte `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  const Entry* longest_prefix(std::string_view text) const;

  std::vector<Entry> entries_;  // sorted by text
};

}  // namespace tinyloop::engine
