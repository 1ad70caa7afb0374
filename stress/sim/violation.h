// The end of a simulation that has found something wrong.
#pragma once

#include <string>

namespace tinyloop::sim {

// Prints the seed, what happened and how to replay it, and ends the process: what is broken inside
// an engine cannot be unwound. Callable from anywhere, a noexcept function too.
[[noreturn]] void violation(const std::string& what);

inline void require(bool holds, const char* what) {
  if (!holds) [[unlikely]]
    violation(what);
}

// The seed that violations name.
void set_seed(uint64_t seed);
// Crashes, hangs and calls of std::terminate are violations, too.
void catch_crashes();
// A seed that takes longer than this hangs.
void restart_watch(int seconds);

// What happened, step by step, if it is wanted: on stdout.
void set_verbose(bool on);
bool is_verbose();
void trace(const std::string& line);

}  // namespace tinyloop::sim
