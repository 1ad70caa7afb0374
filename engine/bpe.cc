#include "engine/bpe.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

[[noreturn]] void fail(const std::string& detail) {
  throw base::Failure(errc::bad_model_file, detail);
}

// Id of a token that may take part in merges.
int32_t mergeable(const Vocabulary& vocabulary, std::string_view text, const std::string& key,
                  const char* role) {
  const auto id = vocabulary.find(text);
  if (!id) fail(key + ": its " + role + " " + quoted(text) + " is not in tokenizer.ggml.tokens");
  const TokenType type = vocabulary.type(*id);
  if (type != TokenType::normal && type != TokenType::user_defined) {
    fail(key + ": its " + role + " " + quoted(text) + " has tokenizer.ggml.token_type " +
         std::to_string(static_cast<int32_t>(type)) + ", allowed are 1 and 4");
  }
  return *id;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, std::span<const std::string_view> merges) {
  constexpr size_t kMaxMerges = std::numeric_limits<int32_t>::max();
  if (merges.size() > kMaxMerges) {
    fail("tokenizer.ggml.merges has " + std::to_string(merges.size()) + " entries, at most " +
         std::to_string(kMaxMerges) + " are allowed");
  }
  merges_.reserve(merges.size());
  for (size_t index = 0; index < merges.size(); ++index) {
    add_merge(vocabulary, merges[index], index);
  }
}

void Bpe::add_merge(const Vocabulary& vocabulary, std::string_view text, size_t index) {
  const std::string key = "tokenizer.ggml.merges[" + std::to_string(index) + "] = " + quoted(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
      text.find(' ', space + 1) != std::string_view::npos) {
    fail(key + ": not two parts with one space between them");
  }
  std::string whole(text);
  whole.erase(space, 1);
  const int32_t left = mergeable(vocabulary, text.substr(0, space), key, "left part");
  const int32_t right = mergeable(vocabulary, text.substr(space + 1), key, "right part");
  const int32_t result = mergeable(vocabulary, whole, key, "result");
  const Merge merge{static_cast<int32_t>(index), result};
  const auto [entry, is_new] = merges_.emplace(pair_key(left, right), merge);
  if (!is_new) fail(key + ": the same as merge " + std::to_string(entry->second.rank));
}

// Appends the pair that begins at `position` to the heap's array, if it can be merged.
bool Bpe::offer_pair(Workspace& workspace, int32_t position) const {
  if (position == kNone) return false;
  const auto& left = workspace.symbols_[static_cast<size_t>(position)];
  if (left.next == kNone) return false;
  const int32_t right_id = workspace.symbols_[static_cast<size_t>(left.next)].id;
  const auto entry = merges_.find(pair_key(left.id, right_id));
  if (entry == merges_.end()) return false;
  const Merge& merge = entry->second;
  workspace.heap_.push_back({merge.rank, position, left.id, right_id, merge.result});
  return true;
}

void Bpe::load(std::span<const int32_t> word, Workspace& workspace) const {
  TINYLOOP_CHECK(word.size() <= kMaxWord);
  workspace.symbols_.clear();
  workspace.heap_.clear();
  const auto count = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < count; ++i) {
    const int32_t next = i + 1 < count ? i + 1 : kNone;
    workspace.symbols_.push_back({word[static_cast<size_t>(i)], i - 1, next});
  }
  for (int32_t i = 0; i < count; ++i) offer_pair(workspace, i);
}

void Bpe::merge(std::span<const int32_t> word, Workspace& workspace,
                std::vector<int32_t>& out) const {
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  };
  load(word, workspace);
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const auto best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    auto& left = symbols[static_cast<size_t>(best.position)];
    if (left.id != best.left || left.next == kNone) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != best.right) continue;

    left.id = best.result;
    left.next = right.next;
    right.id = kGone;
    if (left.next != kNone) symbols[static_cast<size_t>(left.next)].previous = best.position;
    for (const int32_t position : {left.previous, best.position}) {
      if (offer_pair(workspace, position)) std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  for (int32_t i = word.empty() ? kNone : 0; i != kNone; i = symbols[static_cast<size_t>(i)].next) {
    out.push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace tinyloop::engine
