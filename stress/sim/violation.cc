#include "stress/sim/violation.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace tinyloop::sim {

namespace {

uint64_t current_seed = 0;
bool verbose = false;

[[noreturn]] void end_with(const char* what) {
  std::fflush(stdout);
  std::printf("VIOLATION: %s\nseed %llu; again: tinyloop_sim --seeds 1 --first %llu --verbose\n",
              what, (unsigned long long)current_seed, (unsigned long long)current_seed);
  std::fflush(stdout);
  std::_Exit(1);
}

void on_signal(int signal) {
  end_with(signal == SIGALRM ? "the simulation hangs" : "the process crashed");
}

}  // namespace

void violation(const std::string& what) {
  end_with(what.c_str());
}

void set_seed(uint64_t seed) {
  current_seed = seed;
}

void catch_crashes() {
  std::signal(SIGALRM, on_signal);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(signal, on_signal);
#endif
  std::set_terminate([] { end_with("std::terminate"); });
}

void restart_watch(int seconds) {
  alarm(unsigned(seconds));
}

void set_verbose(bool on) {
  verbose = on;
}
bool is_verbose() {
  return verbose;
}
void trace(const std::string& line) {
  if (verbose) std::printf("%s\n", line.c_str());
}

}  // namespace tinyloop::sim
