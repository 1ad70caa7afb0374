// Byte-pair encoding: merges neighbouring symbols of a word, always the pair that stands earliest
// in the merge list, the leftmost one if it occurs several times.
// Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units",
// ACL 2016, section 3.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/vocabulary.h"

namespace tinyloop::engine {

class Bpe {
 public:
  // The longest word, in symbols, that merge() takes.
  static constexpr size_t kMaxWord = size_t{1} << 30;

  // Memory of one merge(), kept for the next one. One per thread.
  class Workspace {
    friend class Bpe;
    struct Symbol {
      int32_t id;              // kGone: it has become part of the symbol on its left
      int32_t previous, next;  // indices; kNone at the borders of the word
    };
    struct Candidate {  // a pair that could be merged when it was found
      int32_t rank;
      int32_t position;     // index of the left symbol
      int32_t left, right;  // ids: once they have changed, the candidate is void
      int32_t result;
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
  };

  // `merges`: "left right", texts of normal or user-defined tokens whose concatenation is one too.
  // Throws base::Failure (bad_model_file) for a merge of another form, one with a part or a result
  // that is missing from the vocabulary, and a repeated one.
  Bpe(const Vocabulary& vocabulary, std::span<const std::string_view> merges);

  // Merges a word of at most kMaxWord ids and appends the result to `out`. O(n log n).
  void merge(std::span<const int32_t> word, Workspace& workspace, std::vector<int32_t>& out) const;

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kGone = -1;

  struct Merge {
    int32_t rank;
    int32_t result;
  };

  void add_merge(const Vocabulary& vocabulary, std::string_view text, size_t index);
  void load(std::span<const int32_t> word, Workspace& workspace) const;
  bool offer_pair(Workspace& workspace, int32_t position) const;

  std::unordered_map<uint64_t, Merge> merges_;  // by (left id, right id)
};

}  // namespace tinyloop::engine
