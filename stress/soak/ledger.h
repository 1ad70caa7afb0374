// What has been sent, how it has ended, and what went wrong. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tinyloop/tinyloop.h"

namespace tinyloop::soak {

class Ledger {
 public:
  void sent() { ++sent_; }
  void completed(const std::string& kind, const error_code& error) {
    ++completed_;
    const std::lock_guard lock(mutex_);
    ++ends_[kind + ": " + (error ? std::string(name(error)) : "ok")];
  }
  void problem(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (problems_.size() < kMostProblems) problems_.push_back(what);
    ++problem_count_;
  }

  uint64_t operations() const { return completed_; }
  uint64_t outstanding() const { return sent_ - completed_; }
  bool clean() const { return problem_count_ == 0; }
  // Prints ends and problems.
  void print() const;

 private:
  static constexpr size_t kMostProblems = 50;
  static std::string name(const error_code& error);

  std::atomic<uint64_t> sent_{0}, completed_{0}, problem_count_{0};
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> ends_;
  std::vector<std::string> problems_;
};

}  // namespace tinyloop::soak
