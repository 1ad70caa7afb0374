#include "engine/special_tokens.h"

#include <algorithm>
#include <utility>

namespace tinyloop::engine {

SpecialTokens::SpecialTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
}

// Narrows the sorted entries byte by byte to those that begin like `text`.
const SpecialTokens::Entry* SpecialTokens::longest_prefix(std::string_view text) const {
  const Entry* longest = nullptr;
  auto first = entries_.begin(), last = entries_.end();
  for (size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto by_byte = [depth](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[depth]);
    };
    const auto wanted = static_cast<unsigned char>(text[depth]);
    first = std::partition_point(first, last, [&](const Entry& e) { return by_byte(e) < wanted; });
    last = std::partition_point(first, last, [&](const Entry& e) { return by_byte(e) == wanted; });
    // The entry that ends here sorts before those that go on.
    if (first != last && first->text.size() == depth + 1) longest = &*first++;
  }
  return longest;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (const Entry* entry = longest_prefix(text.substr(begin))) {
      return Match{begin, entry->text.size(), entry->id};
    }
  }
  return std::nullopt;
}

}  // namespace tinyloop::engine
