// Byte-pair encoding as SentencePiece does it: neighbours are merged whose joint text is a token,
// always the pair of the highest score, the leftmost one if it occurs several times.
// Source: Kudo and Richardson, EMNLP 2018, section 3.1; Sennrich, Haddow, Birch, ACL 2016.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/vocabulary.h"

namespace tinyloop::engine {

// Cuts one text after the other; keeps its memory for the next one. One per thread.
class PieceMerger {
 public:
  // The longest text, in bytes, that cut() takes.
  static constexpr size_t kMaxText = size_t{1} << 30;

  // Both must outlive this. `scores`: one a token, no NaN. `longest`: bytes of the longest token
  // that may be merged.
  PieceMerger(const Vocabulary& vocabulary, std::span<const float> scores, size_t longest)
      : vocabulary_(vocabulary), scores_(scores), longest_(longest) {}

  // The pieces of `text` (spaces escaped; a byte that is not UTF-8 is a character of its own), in
  // order: normal tokens, and characters that are none. The views lie in `text`; valid until the
  // next call. O(n log n). Merges run through unused tokens, too, which are then taken apart again.
  const std::vector<std::string_view>& cut(std::string_view text);

 private:
  static constexpr int32_t kNone = -1;

  struct Symbol {
    std::string_view text;   // empty: it has become part of the symbol on its left
    int32_t previous, next;  // indices; kNone at the borders of the text
  };
  struct Candidate {  // a pair that could be merged when it was found
    float score;
    int32_t position;  // index of the left symbol
    size_t size;       // bytes of both: once they have changed, the candidate is void
  };
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const noexcept {
      return a.score != b.score ? a.score < b.score : a.position > b.position;
    }
  };

  void load(std::string_view text);
  std::optional<Candidate> candidate_at(int32_t position);
  void merge(const Candidate& candidate);
  void push(int32_t position);
  void take_apart(std::string_view text);

  const Vocabulary& vocabulary_;
  std::span<const float> scores_;
  size_t longest_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::unordered_map<std::string_view, size_t> unused_parts_;  // unused text -> bytes of its left
  std::vector<std::string_view> pieces_, stack_;
};

}  // namespace tinyloop::engine
