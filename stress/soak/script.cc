#include "stress/soak/script.h"

#include <boost/asio/use_future.hpp>
#include <random>

namespace tinyloop::soak {

namespace {

// Around the borders of pages.
constexpr int32_t kBeginningLengths[Script::kBeginnings] = {3, 16, 17, 20, 33, 48};
constexpr int32_t kEndingLengths[Script::kEndings] = {0, 1, 2, 5, 9, 13, 16, 17};

std::vector<int32_t> draw(std::mt19937_64& random, int32_t length, int32_t vocab) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back(int32_t(random() % uint64_t(vocab)));
  return tokens;
}

}  // namespace

Script::Script(const std::string& path, const std::string& device, uint64_t seed) {
  Engine engine;
  ModelOptions options;
  options.device = device;
  options.max_seq_len = 96;
  const Model model = engine.load(path, options);
  std::mt19937_64 random(seed);
  const int32_t vocab = model.info().vocab;
  for (const int32_t length : kBeginningLengths) beginnings_.push_back(draw(random, length, vocab));
  for (const int32_t length : kEndingLengths) endings_.push_back(draw(random, length, vocab));
  results_.resize(kBeginnings * kEndings * size_t(kDepths) * 2);
  scores_.resize(results_.size());
  Passage at;
  for (at.beginning = 0; at.beginning < kBeginnings; ++at.beginning) {
    for (at.ending = 0; at.ending < kEndings; ++at.ending) {
      for (at.loops = 1; at.loops <= kDepths; ++at.loops) {
        for (const bool is_random : {false, true}) {
          at.random = is_random;
          GenerateRequest request{.tokens = tokens(at), .config = config(at)};
          request.config.max_tokens = kMostTokens;
          results_[index(at)] = model.async_generate(request, boost::asio::use_future).get().tokens;
          if (is_random) continue;
          const ScoreRequest text{.tokens = tokens(at), .loops = at.loops};
          scores_[index(at)] = model.async_score(text, boost::asio::use_future).get().logprobs;
        }
      }
    }
  }
}

std::vector<int32_t> Script::tokens(const Passage& passage) const {
  std::vector<int32_t> all = beginnings_[passage.beginning];
  const std::vector<int32_t>& ending = endings_[passage.ending];
  all.insert(all.end(), ending.begin(), ending.end());
  return all;
}

GenerateConfig Script::config(const Passage& passage) const {
  GenerateConfig config;
  config.loops = passage.loops;
  config.eos = EosMode::ignore;
  if (passage.random) {
    config.temperature = 0.9f;
    config.top_k = 20;
    config.seed = index(passage);
  }
  return config;
}

const std::vector<int32_t>& Script::expected(const Passage& passage) const {
  return results_[index(passage)];
}

const std::vector<float>& Script::expected_score(const Passage& passage) const {
  Passage greedy = passage;
  greedy.random = false;
  return scores_[index(greedy)];
}

size_t Script::index(const Passage& passage) {
  const size_t text = passage.beginning * kEndings + passage.ending;
  return (text * size_t(kDepths) + size_t(passage.loops - 1)) * 2 + (passage.random ? 1 : 0);
}

}  // namespace tinyloop::soak
