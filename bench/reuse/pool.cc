#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>

#include "bench/calls.h"
#include "bench/reuse/arithmetic.h"
#include "bench/reuse/tables.h"
#include "bench/samples.h"

namespace tinyloop::bench {

namespace {

PrefixPool pool_with(const Model& model, std::vector<int32_t> tokens, int32_t loops) {
  PrefixPool pool({.capacity = 1});
  PrefixRequest request;
  request.tokens = std::move(tokens);
  request.loops = loops;
  register_prefix(model, pool, request);
  return pool;
}

// The pools of one run, each of one prefix: first one that has nothing in common with the prompt.
struct Pools {
  std::vector<int32_t> prompt;
  std::vector<int32_t> registered;  // positions that the prompt begins with
  std::vector<PrefixPool> pools;
};

Pools make_pools(const Model& model, int32_t loops, const PoolSettings& settings) {
  const int32_t vocab = model.info().vocab;
  Pools result{.prompt = some_tokens(settings.prompt, vocab, 1), .registered = {}, .pools = {}};
  const auto add = [&](int32_t common, std::vector<int32_t> tokens) {
    result.registered.push_back(common);
    result.pools.push_back(pool_with(model, std::move(tokens), loops));
  };
  add(0, some_tokens(settings.prompt, vocab, 2));
  for (const double share : settings.shares) {
    const auto count =
        std::clamp(int32_t(std::lround(share * settings.prompt)), 1, settings.prompt);
    add(count, {result.prompt.begin(), result.prompt.begin() + count});
  }
  return result;
}

// That the pools did what the table says of them.
void check_saved(const Pools& pools, int32_t rounds) {
  for (size_t i = 0; i < pools.pools.size(); ++i) {
    const uint64_t expected = uint64_t(pools.registered[i]) * uint64_t(rounds + 1);
    if (pools.pools[i].statistics().tokens_saved != expected) {
      throw std::runtime_error("a pool has not served as many positions as it holds");
    }
  }
}

// Without a pool; with each pool; the part that each pool holds, computed alone (0: nothing).
struct Measured {
  Samples plain;
  std::vector<Samples> pooled, part;
};

Measured measure(const Model& model, int32_t loops, int32_t rounds, const Pools& pools) {
  std::vector<std::function<double()>> variants;
  const auto add = [&](GenerateRequest request) {
    variants.emplace_back(
        [&model, request = std::move(request)] { return call_us(model, request); });
  };
  add(greedy(pools.prompt, loops, 1));
  for (size_t i = 0; i < pools.pools.size(); ++i) {
    GenerateRequest request = greedy(pools.prompt, loops, 1);
    request.pool = pools.pools[i];
    add(request);
    request.pool = {};
    request.tokens.resize(size_t(std::max(pools.registered[i], 1)));
    add(request);
  }
  auto samples = take_turns(rounds, variants);
  Measured result{.plain = std::move(samples[0]), .pooled = {}, .part = {}};
  for (size_t i = 1; i < samples.size(); i += 2) {
    result.pooled.push_back(std::move(samples[i]));
    result.part.push_back(std::move(samples[i + 1]));
  }
  return result;
}

// The least ratio of the rows that save anything.
double print_rows(const ModelInfo& info, double layer_macs, const Pools& pools,
                  const Measured& measured) {
  double least = 1e9;
  const auto n = double(pools.prompt.size());
  std::printf("| no pool | %s | | | | |\n", spread(scaled(measured.plain, 1e-3), 2).c_str());
  for (size_t i = 0; i < pools.pools.size(); ++i) {
    const int32_t registered = pools.registered[i];
    const Samples saving = savings(measured.pooled[i], measured.plain);
    const double arithmetic =
        prompt_macs(info, layer_macs, registered) / prompt_macs(info, layer_macs, n);
    std::string ratio, of_part;
    if (registered > 0) {
      ratio = spread(scaled(saving, 1 / arithmetic), 3);
      of_part =
          spread(ratios(differences(measured.plain, measured.pooled[i]), measured.part[i]), 3);
      least = std::min(least, median(saving) / arithmetic);
    }
    std::printf("| %.3f | %s | %s | %.1f | %s | %s |\n", registered / n,
                spread(scaled(measured.pooled[i], 1e-3), 2).c_str(),
                spread(scaled(saving, 100), 1).c_str(), arithmetic * 100, ratio.c_str(),
                of_part.c_str());
  }
  return least;
}

}  // namespace

void print_pool(const Model& model, int32_t loops, int32_t rounds, const PoolSettings& settings) {
  const ModelInfo info = model.info();
  const Pools pools = make_pools(model, loops, settings);
  const Measured measured = measure(model, loops, rounds, pools);
  check_saved(pools, rounds);
  const double layer_macs = settings.layer_macs > 0 ? settings.layer_macs : usual_layer_macs(info);
  std::printf(
      "\n## Pool, prompt of %d tokens, %d loops\n\n"
      "Arithmetic of n positions in one layer: n · %.0f + %d · n (n + 1) multiply-adds, matrices "
      "and attention.\n\n"
      "| share registered | first token, ms | time saved, %% | arithmetic saved, %% | time ÷ "
      "arithmetic | time saved ÷ time of that part alone |\n"
      "|---|---|---|---|---|---|\n",
      settings.prompt, loops, layer_macs, info.d_model);
  const double least = print_rows(info, layer_macs, pools, measured);
  std::printf("\nNothing in common: %s us more than without a pool.\n",
              spread(differences(measured.pooled[0], measured.plain), 0).c_str());
  std::printf("Time saved ÷ arithmetic saved, least: %.3f; at least 0.95: %s.\n", least,
              least >= 0.95 ? "met" : "missed");
}

}  // namespace tinyloop::bench
