#include "board.h"

#include <algorithm>

namespace demo {

bool Tale::well_ended() const {
  using tinyloop::FinishReason;
  return summary && error.empty() && summary->finish_reason != FinishReason::cancelled &&
         summary->finish_reason != FinishReason::deadline;
}

bool Snapshot::all_done() const {
  return std::all_of(tales.begin(), tales.end(), [](const Tale& tale) { return tale.done(); });
}

Board::Board(const std::vector<tinyloop::GenerateRequest>& requests) {
  for (const tinyloop::GenerateRequest& request : requests) {
    Tale tale;
    tale.opening = request.text;
    state_.tales.push_back(std::move(tale));
    state_.loops.push_back(request.config.loops.value());
  }
}

void Board::add(size_t caller, const tinyloop::StreamChunk& chunk) {
  const std::lock_guard lock(mutex_);
  Tale& tale = state_.tales[caller];
  if (!chunk.tokens.empty() && !tale.first_token_ms) tale.first_token_ms = seconds_now() * 1e3;
  tale.text += chunk.text;
  tale.tokens.insert(tale.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  state_.tokens += chunk.tokens.size();
  if (!chunk.summary) return;
  tale.summary = chunk.summary;
  note_end();
}

void Board::fail(size_t caller, const std::string& error) {
  const std::lock_guard lock(mutex_);
  state_.tales[caller].error = error;
  note_end();
}

void Board::note_end() {
  if (state_.all_done()) state_.seconds = seconds_now();
}

Snapshot Board::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot copy = state_;
  if (!copy.all_done()) copy.seconds = seconds_now();
  return copy;
}

}  // namespace demo
