#include "engine/piece_merger.h"

#include <algorithm>

#include "base/check.h"
#include "engine/utf8.h"

namespace tinyloop::engine {

void PieceMerger::load(std::string_view text) {
  TINYLOOP_CHECK(text.size() <= kMaxText);
  symbols_.clear();
  heap_.clear();
  unused_parts_.clear();
  pieces_.clear();
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    const size_t length = c.status == Utf8Status::valid ? c.length : 1;
    const auto index = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({text.substr(0, length), index - 1, index + 1});
    text.remove_prefix(length);
  }
  if (!symbols_.empty()) symbols_.back().next = kNone;
}

std::optional<PieceMerger::Candidate> PieceMerger::candidate_at(int32_t position) {
  if (position == kNone) return std::nullopt;
  const Symbol& left = symbols_[static_cast<size_t>(position)];
  if (left.next == kNone) return std::nullopt;
  const size_t size = left.text.size() + symbols_[static_cast<size_t>(left.next)].text.size();
  if (size > longest_) return std::nullopt;
  const std::string_view both(left.text.data(), size);  // neighbours in one text
  const auto id = vocabulary_.find(both);
  if (!id) return std::nullopt;
  const TokenType type = vocabulary_.type(*id);
  if (type == TokenType::unused) {
    unused_parts_.insert_or_assign(both, left.text.size());
  } else if (type != TokenType::normal) {
    return std::nullopt;
  }
  return Candidate{scores_[static_cast<size_t>(*id)], position, size};
}

void PieceMerger::push(int32_t position) {
  if (const auto candidate = candidate_at(position)) {
    heap_.push_back(*candidate);
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }
}

void PieceMerger::merge(const Candidate& candidate) {
  Symbol& left = symbols_[static_cast<size_t>(candidate.position)];
  if (left.text.empty() || left.next == kNone) return;
  Symbol& right = symbols_[static_cast<size_t>(left.next)];
  if (left.text.size() + right.text.size() != candidate.size) return;
  left.text = {left.text.data(), candidate.size};
  left.next = right.next;
  right.text = {};
  if (left.next != kNone) symbols_[static_cast<size_t>(left.next)].previous = candidate.position;
  push(left.previous);
  push(candidate.position);
}

// An unused token in a text becomes what it was merged from, down to tokens that may be used. Not
// by recursion: how deep it goes is up to the model file.
void PieceMerger::take_apart(std::string_view text) {
  stack_.assign(1, text);
  while (!stack_.empty()) {
    const std::string_view top = stack_.back();
    stack_.pop_back();
    const auto parts = unused_parts_.find(top);
    if (parts == unused_parts_.end()) {
      pieces_.push_back(top);
      continue;
    }
    stack_.push_back(top.substr(parts->second));
    stack_.push_back(top.substr(0, parts->second));
  }
}

const std::vector<std::string_view>& PieceMerger::cut(std::string_view text) {
  load(text);
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (const auto candidate = candidate_at(static_cast<int32_t>(i))) heap_.push_back(*candidate);
  }
  std::make_heap(heap_.begin(), heap_.end(), Later());
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    heap_.pop_back();
    merge(best);
  }
  for (int32_t i = symbols_.empty() ? kNone : 0; i != kNone;) {
    const Symbol& symbol = symbols_[static_cast<size_t>(i)];
    take_apart(symbol.text);
    i = symbol.next;
  }
  return pieces_;
}

}  // namespace tinyloop::engine
