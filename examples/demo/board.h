// What is known of every caller's tale at this moment. The callers write, the display reads.
#pragma once

#include <tinyloop/generate.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace demo {

struct Tale {
  std::string opening;
  std::string text;  // what follows the opening
  std::vector<int32_t> tokens;
  std::optional<double> first_token_ms;  // since the board began
  std::optional<tinyloop::StreamChunk::Summary> summary;
  std::string error;  // empty: none

  bool done() const { return summary || !error.empty(); }
  // Ended as it should: by itself, not cut short.
  bool well_ended() const;
};

struct Snapshot {
  std::vector<Tale> tales;
  std::vector<int32_t> loops;  // the depth each was asked for
  double seconds = 0;          // since the board began; stands still once every tale is done
  size_t tokens = 0;

  bool all_done() const;
  double tokens_per_second() const { return seconds > 0 ? double(tokens) / seconds : 0; }
};

// Any thread may call any member.
class Board {
 public:
  explicit Board(const std::vector<tinyloop::GenerateRequest>& requests);

  void add(size_t caller, const tinyloop::StreamChunk& chunk);
  void fail(size_t caller, const std::string& error);
  Snapshot snapshot() const;

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_now() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  void note_end();

  const Clock::time_point begin_ = Clock::now();
  mutable std::mutex mutex_;
  Snapshot state_;
};

}  // namespace demo
