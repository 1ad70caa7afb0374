#include "stress/workload.h"

#include <boost/asio/use_future.hpp>
#include <iterator>

namespace tinyloop::stress {

namespace {

using Random = std::mt19937_64;

// Below `bound`. Not std::uniform_int_distribution: its values differ between standard libraries.
int32_t below(Random& random, int32_t bound) {
  return int32_t(random() % uint64_t(bound));
}

GenerateRequest draw_request(Random& random, int32_t vocab, bool is_long) {
  GenerateRequest request;
  const int32_t length = is_long ? 80 + below(random, 32) : 1 + below(random, 40);
  for (int32_t i = 0; i < length; ++i) request.tokens.push_back(below(random, vocab));
  GenerateConfig& config = request.config;
  config.max_tokens = 1 + below(random, is_long ? 4 : 24);
  config.loops = 1 + below(random, 6);
  if (below(random, 2) == 0) config.temperature = 0.9f;
  if (below(random, 3) == 0) config.top_k = 20;
  if (below(random, 3) == 0) config.top_p = 0.9f;
  if (below(random, 4) == 0) config.repetition_penalty = 1.1f;
  if (below(random, 4) == 0) config.frequency_penalty = 0.5f;
  if (below(random, 6) == 0) config.presence_penalty = -0.5f;
  if (below(random, 6) == 0) config.logit_bias = {{below(random, vocab), 4.0f}};
  if (below(random, 6) == 0) config.min_tokens = 1 + below(random, config.max_tokens);
  if (below(random, 6) == 0) config.min_p = 0.1f;
  if (below(random, 3) == 0) config.logprobs = below(random, 4);
  if (below(random, 4) == 0) config.cache_window = 8 + below(random, 16);
  if (below(random, 3) == 0)
    config.stop_sequences.push_back(std::string(1, char('a' + below(random, 26))));
  config.seed = random();
  return request;
}

// Half of the jobs are cancelled.
void draw_cut(Random& random, Job& job) {
  const int32_t choice = below(random, 20);
  job.cut = choice < 8    ? Cut::none
            : choice == 8 ? Cut::deadline
            : choice == 9 ? Cut::drop
                          : Cut::cancel;
  constexpr Aim kAims[] = {Aim::queued,     Aim::queued,     Aim::prefill, Aim::prefill,
                           Aim::prefill,    Aim::decode,     Aim::decode,  Aim::decode,
                           Aim::completing, Aim::completing, Aim::done,    Aim::done};
  job.aim = kAims[below(random, int32_t(std::size(kAims)))];
  job.elsewhere = below(random, 2) == 0;
}

// Ways of sending on which the cut can be aimed.
Kind draw_kind(Random& random, const Job& job) {
  if (job.cut == Cut::drop) return Kind::stream;
  if (job.cut == Cut::cancel && job.aim == Aim::decode)
    return below(random, 3) == 0 ? Kind::chunks : Kind::stream;
  if (job.cut == Cut::cancel && job.aim == Aim::completing)
    return below(random, 2) == 0 ? Kind::callback : Kind::score;
  return Kind(below(random, kKinds));
}

}  // namespace

Workload::Workload(const Model& model, uint64_t seed) : seed_(seed) {
  Random random(seed);
  for (size_t i = 0; i < kPatterns; ++i) {
    requests_.push_back(draw_request(random, model.info().vocab, i >= kPatterns / 2));
    results_.push_back(model.async_generate(requests_[i], boost::asio::use_future).get());
    Job job;
    job.pattern = i;
    scores_.push_back(model.async_score(score_request(job), boost::asio::use_future).get());
  }
}

std::vector<Job> Workload::draw(uint64_t thread, size_t count) const {
  Random random(seed_ * 1000003 + thread + 1);
  std::vector<Job> jobs(count);
  for (Job& job : jobs) {
    draw_cut(random, job);
    job.kind = draw_kind(random, job);
    const bool is_long = job.cut == Cut::cancel ? job.aim == Aim::prefill : below(random, 4) == 0;
    job.pattern = size_t(below(random, int32_t(kPatterns / 2))) + (is_long ? kPatterns / 2 : 0);
    job.reads = 1 + below(random, 3);
    job.share = double(below(random, 100)) / 100;
    job.delay = below(random, 1 << below(random, 14));
    job.when_full = below(random, 8) == 0 ? WhenFull::fail : WhenFull::wait;
  }
  return jobs;
}

GenerateRequest Workload::request(const Job& job) const {
  GenerateRequest request = requests_[job.pattern];
  request.when_full = job.when_full;
  if (job.cut == Cut::deadline)
    request.config.deadline =
        std::chrono::steady_clock::now() + std::chrono::microseconds(job.delay);
  return request;
}

ScoreRequest Workload::score_request(const Job& job) const {
  const GenerateRequest& from = requests_[job.pattern];
  ScoreRequest request;
  request.tokens = from.tokens;
  request.loops = from.config.loops;
  request.cache_window = from.config.cache_window;
  request.when_full = job.when_full;
  if (job.cut == Cut::deadline)
    request.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(job.delay);
  return request;
}

}  // namespace tinyloop::stress
