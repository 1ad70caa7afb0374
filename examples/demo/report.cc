#include "report.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

namespace demo {

namespace {

// Columns: what, alone, together.
void row(const char* what, const char* pattern, double alone, double together) {
  char left[32], right[32], line[128];
  std::snprintf(left, sizeof left, pattern, alone);
  std::snprintf(right, sizeof right, pattern, together);
  std::snprintf(line, sizeof line, "%-32s %12s %12s\n", what, left, right);
  std::cout << line;
}

struct Spread {
  double median = 0;
  double max = 0;
};

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back()};
}

Spread first_token_ms(const Snapshot& result) {
  std::vector<double> values;
  for (const Tale& tale : result.tales) {
    if (tale.first_token_ms) values.push_back(*tale.first_token_ms);
  }
  return spread(std::move(values));
}

Spread queue_ms(const Snapshot& result) {
  std::vector<double> values;
  for (const Tale& tale : result.tales) {
    if (tale.summary) values.push_back(tale.summary->timings.queue_us / 1e3);
  }
  return spread(std::move(values));
}

void memory_row(const std::string& what, size_t bytes, const std::string& note = "") {
  char line[128];
  std::snprintf(line, sizeof line, "  %-18s %14zu bytes%s\n", what.c_str(), bytes, note.c_str());
  std::cout << line;
}

// Without the white space at the end.
std::string trimmed(const std::string& text) {
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

}  // namespace

void print_tales(const Snapshot& result) {
  constexpr size_t kShown[] = {0, 3, 7};  // depths 1, 4 and 8
  for (const size_t i : kShown) {
    if (i >= result.tales.size()) return;
    const Tale& tale = result.tales[i];
    std::cout << "\n--- caller " << i + 1 << ", depth " << result.loops[i] << " ---\n"
              << tale.opening << trimmed(tale.text) << '\n';
  }
}

void print_comparison(const Run& alone, const Run& together) {
  std::cout << "\n                                        alone     together\n";
  const Spread first_alone = first_token_ms(alone.result);
  const Spread first_together = first_token_ms(together.result);
  const Spread queue_alone = queue_ms(alone.result), queue_together = queue_ms(together.result);
  row("callers", "%.0f", double(alone.result.tales.size()), double(together.result.tales.size()));
  row("tokens", "%.0f", double(alone.result.tokens), double(together.result.tokens));
  row("seconds", "%.2f", alone.result.seconds, together.result.seconds);
  row("tokens/s", "%.1f", alone.result.tokens_per_second(), together.result.tokens_per_second());
  row("time to first token, median (ms)", "%.1f", first_alone.median, first_together.median);
  row("time to first token, max (ms)", "%.1f", first_alone.max, first_together.max);
  row("queue time, median (ms)", "%.2f", queue_alone.median, queue_together.median);
  row("queue time, max (ms)", "%.2f", queue_alone.max, queue_together.max);
  row("passes of the shared block", "%.0f", double(alone.passes), double(together.passes));
  row("rows per pass", "%.1f", alone.rows_per_pass(), together.rows_per_pass());
}

void print_memory(const tinyloop::MemoryReport& memory) {
  std::cout << "\nmemory of the replica, after the last tale\n";
  memory_row("weights", memory.weights);
  memory_row("buffers", memory.buffers);
  for (const tinyloop::MemoryReport::Buffer& buffer : memory.buffer_list) {
    memory_row("  " + buffer.name, buffer.bytes, ", " + std::to_string(buffer.rows) + " rows");
  }
  memory_row("workspace", memory.workspace);
  memory_row("K/V page arena", memory.arena,
             ", " + std::to_string(memory.pages_free) + " pages free");
  memory_row("total", memory.total());
}

}  // namespace demo
