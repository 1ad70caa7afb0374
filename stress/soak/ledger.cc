#include "stress/soak/ledger.h"

#include <cstdio>

namespace tinyloop::soak {

std::string Ledger::name(const error_code& error) {
  return make_error_condition(errc_of(error)).message();
}

void Ledger::print() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [end, count] : ends_) {
    std::printf("  %-48s %10llu\n", end.c_str(), (unsigned long long)count);
  }
  for (const std::string& text : problems_) std::printf("PROBLEM: %s\n", text.c_str());
  if (problem_count_ > problems_.size()) {
    std::printf("PROBLEM: and %llu more\n",
                (unsigned long long)(problem_count_ - problems_.size()));
  }
}

}  // namespace tinyloop::soak
