// Speed of the choice of tokens: sample_bench [--device D] [--vocab N]… [--rows N]… [--spread S]…
//
// Microseconds a launch for each way of sampling, over random logits of a normal distribution: of
// deviation 1 it is flat, so that most tokens stay in the choice; of 4 it is peaked, as models are.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/device_copy.h"
#include "bench/samples.h"
#include "kernels/backend.h"

namespace tinyloop::bench {
namespace {

using namespace kernels;

struct Settings {
  std::string device = "cuda:0";
  std::vector<int32_t> vocabs{49152}, rows{1, 8, 32, 64, 128};
  std::vector<float> spreads{1.0f, 4.0f};
};

// What the rows have beside their logits.
struct Inputs {
  uint32_t* counts;  // [rows, vocab]
  const uint32_t* mask;
  const LogitBias* biases;
};

struct Way {
  const char* name;
  std::function<void(SampleTerms&, const Inputs&)> set;
};

const Way kWays[] = {
    {"greedy", [](SampleTerms&, const Inputs&) {}},
    {"temperature", [](SampleTerms& t, const Inputs&) { t.temperature = 0.8f; }},
    {"top-p 0.95",
     [](SampleTerms& t, const Inputs&) {
       t.temperature = 0.8f;
       t.top_p = 0.95f;
     }},
    {"top-k 40",
     [](SampleTerms& t, const Inputs&) {
       t.temperature = 0.8f;
       t.top_k = 40;
     }},
    {"min-p 0.05",
     [](SampleTerms& t, const Inputs&) {
       t.temperature = 0.8f;
       t.min_p = 0.05f;
     }},
    {"penalties",
     [](SampleTerms& t, const Inputs& inputs) {
       t.temperature = 0.8f;
       t.repetition_penalty = 1.1f;
       t.frequency_penalty = 0.1f;
       t.counts = inputs.counts;
     }},
    {"20 log-probabilities",
     [](SampleTerms& t, const Inputs&) {
       t.temperature = 0.8f;
       t.candidates = 20;
     }},
    {"top-k, top-p, penalties",
     [](SampleTerms& t, const Inputs& inputs) {
       t.temperature = 0.8f;
       t.top_k = 40;
       t.top_p = 0.95f;
       t.repetition_penalty = 1.1f;
       t.counts = inputs.counts;
     }},
    {"greedy, mask, biases",
     [](SampleTerms& t, const Inputs& inputs) {
       t.mask = inputs.mask;
       t.biases = inputs.biases;
       t.bias_count = 2;
     }},
};

// Logits of the most rows there will be, and room for what comes of them.
class Rows {
 public:
  Rows(Backend& backend, int32_t rows, int32_t vocab, float spread)
      : backend_(backend), vocab_(vocab) {
    const size_t count = size_t(rows) * size_t(vocab);
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logits(count);
    for (float& logit : logits) logit = normal(random);
    std::vector<uint32_t> counts(count);
    for (uint32_t& used : counts) used = random() % 50 == 0 ? 1 : 0;
    DeviceMemory& memory = backend.memory();
    logits_ = copy_of(memory, logits);
    adjusted_ = copy_of(memory, logits);
    counts_ = copy_of(memory, counts);
    mask_ = copy_of(memory, std::vector<uint32_t>(mask_words(vocab), ~0u));
    biases_ = copy_of(memory, std::vector<LogitBias>{{0, 1.0f}, {1, -1.0f}});
    const auto share = [&](size_t tokens) {
      return static_cast<ScoredToken*>(memory.share(tokens * sizeof(ScoredToken)));
    };
    chosen_ = share(size_t(rows));
    candidates_ = share(size_t(rows) * kMostCandidates);
  }

  // Median of some samples, in microseconds a launch.
  double time(const Way& way, int32_t rows) {
    std::vector<SampleTerms> terms(static_cast<size_t>(rows));
    for (size_t r = 0; r < terms.size(); ++r) {
      terms[r].position = r;
      way.set(terms[r], {counts_.as<uint32_t>() + r * size_t(vocab_), mask_.as<uint32_t>(),
                         biases_.as<LogitBias>()});
    }
    const DeviceBuffer staged = copy_of(backend_.memory(), terms);
    constexpr int32_t kLaunches = 64, kWarmUp = 10;  // lists that keep coming become graphs
    const auto run = [&] {
      for (int32_t i = 0; i < kLaunches; ++i) {
        backend_.sample({logits_.as<float>(), rows, vocab_, staged.as<SampleTerms>(),
                         terms[0].adjusts() ? adjusted_.as<float>() : nullptr, chosen_,
                         candidates_});
      }
      backend_.synchronise();
    };
    Samples samples;
    for (int32_t i = 0; i < kWarmUp + 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      if (i >= kWarmUp) samples.push_back(took.count() / kLaunches);
    }
    return median(samples);
  }

 private:
  Backend& backend_;
  int32_t vocab_;
  DeviceBuffer logits_, adjusted_, counts_, mask_, biases_;
  ScoredToken *chosen_ = nullptr, *candidates_ = nullptr;
};

void run(const Settings& settings) {
  ModelOptions options;
  options.device = settings.device;
  const auto backend = make_backend(options).value();
  const int32_t most = *std::max_element(settings.rows.begin(), settings.rows.end());
  std::printf("%s, microseconds a launch by rows\n", backend->description().c_str());
  for (const int32_t vocab : settings.vocabs) {
    for (const float spread : settings.spreads) {
      std::printf("vocabulary %d, deviation %-11g", vocab, double(spread));
      for (const int32_t rows : settings.rows) std::printf(" %8d", rows);
      Rows batch(*backend, most, vocab, spread);
      for (const Way& way : kWays) {
        std::printf("\n  %-34s", way.name);
        for (const int32_t rows : settings.rows) std::printf(" %8.1f", batch.time(way, rows));
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace tinyloop::bench

int main(int argc, char** argv) {
  tinyloop::bench::Settings settings;
  CLI::App app("Speed of the choice of tokens");
  app.add_option("--device", settings.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--vocab", settings.vocabs, "sizes of the vocabulary")->capture_default_str();
  app.add_option("--rows", settings.rows, "rows of a launch")->capture_default_str();
  app.add_option("--spread", settings.spreads, "standard deviations of the logits")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    tinyloop::bench::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sample_bench: %s\n", error.what());
    return 1;
  }
}
