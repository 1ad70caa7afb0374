// What the requests of a soak are made of, and what each must give: beginnings, continuations and
// depths, with the results of serial runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tinyloop/tinyloop.h"

namespace tinyloop::soak {

// A text: a beginning and what follows it, at a depth, greedy or with random draws.
struct Passage {
  size_t beginning = 0;
  size_t ending = 0;
  int32_t loops = 1;
  bool random = false;
};

class Script {
 public:
  static constexpr int32_t kDepths = 4;
  static constexpr int32_t kMostTokens = 16;  // generated
  static constexpr size_t kBeginnings = 6, kEndings = 8;

  // Runs every passage alone on an engine of its own, on `device`. Throws
  // boost::system::system_error.
  Script(const std::string& path, const std::string& device, uint64_t seed);

  const std::vector<int32_t>& beginning(size_t which) const { return beginnings_[which]; }
  const std::vector<int32_t>& ending(size_t which) const { return endings_[which]; }
  std::vector<int32_t> tokens(const Passage& passage) const;
  // Sampling, without a limit on tokens.
  GenerateConfig config(const Passage& passage) const;

  // Prompt, and kMostTokens behind it.
  const std::vector<int32_t>& expected(const Passage& passage) const;
  const std::vector<float>& expected_score(const Passage& passage) const;

 private:
  static size_t index(const Passage& passage);

  std::vector<std::vector<int32_t>> beginnings_, endings_;
  std::vector<std::vector<int32_t>> results_;
  std::vector<std::vector<float>> scores_;
};

}  // namespace tinyloop::soak
