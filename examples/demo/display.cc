#include "display.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "terminal.h"

namespace demo {

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

const char* state_of(const Tale& tale) {
  if (!tale.error.empty()) return "failed";
  if (!tale.summary) return tale.tokens.empty() ? "waits" : "tells";
  return to_string(tale.summary->finish_reason);
}

std::string summary_line(const Snapshot& snapshot) {
  const auto done = std::count_if(snapshot.tales.begin(), snapshot.tales.end(),
                                  [](const Tale& tale) { return tale.done(); });
  return format("%zu callers on one replica, %td done, %zu tokens in %.1f s, %.1f tokens/s",
                snapshot.tales.size(), done, snapshot.tokens, snapshot.seconds,
                snapshot.tokens_per_second());
}

class Panel final : public Display {
 public:
  void show(const Snapshot& snapshot) override {
    const TerminalSize size = terminal_size();
    // The last line of the terminal stays free: the cursor rests there.
    const size_t room = size.rows > 4 ? size.rows - 3 : 1;
    const size_t shown = std::min(snapshot.tales.size(), room);
    std::string frame = lines_ > 0 ? format("\x1b[%zuA\r\x1b[J", lines_) : "";
    frame += "\x1b[1m" + tail(summary_line(snapshot), size.columns - 1) + "\x1b[0m\n";
    for (size_t i = 0; i < shown; ++i) frame += line(snapshot, i, size.columns);
    lines_ = 1 + shown;
    if (shown < snapshot.tales.size()) {
      frame += format("… and %zu more\n", snapshot.tales.size() - shown);
      ++lines_;
    }
    std::cout << frame << std::flush;
  }

 private:
  static std::string line(const Snapshot& snapshot, size_t caller, size_t columns) {
    const Tale& tale = snapshot.tales[caller];
    const std::string head = format("%3zu  depth %d  %4zu  %-10s  ", caller + 1,
                                    snapshot.loops[caller], tale.tokens.size(), state_of(tale));
    const size_t left = columns > head.size() + 1 ? columns - head.size() - 1 : 0;
    const std::string words = tale.error.empty() ? tale.opening + tale.text : tale.error;
    const char* const look = tale.done() ? "\x1b[2m" : "";  // faint
    return look + head + tail(words, left) + "\x1b[0m\n";
  }

  size_t lines_ = 0;  // that the last frame took
};

class Lines final : public Display {
 public:
  void show(const Snapshot& snapshot) override {
    told_.resize(snapshot.tales.size());
    for (size_t i = 0; i < snapshot.tales.size(); ++i) {
      const Tale& tale = snapshot.tales[i];
      if (told_[i] || !tale.done()) continue;
      told_[i] = true;
      std::cout << format("[%5.1f s] caller %2zu  depth %d  %3zu tokens  %-10s  ", snapshot.seconds,
                          i + 1, snapshot.loops[i], tale.tokens.size(), state_of(tale))
                << (tale.error.empty() ? "…" + tail(tale.opening + tale.text, 48) : tale.error)
                << '\n';
    }
    std::cout << std::flush;
  }

 private:
  std::vector<bool> told_;
};

}  // namespace

std::unique_ptr<Display> make_display(bool plain) {
  if (plain || !stdout_is_terminal()) return std::make_unique<Lines>();
  return std::make_unique<Panel>();
}

}  // namespace demo
