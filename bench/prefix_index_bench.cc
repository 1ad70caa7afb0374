// What it costs to look a prompt up among a pool's prefixes: prefix_index_bench
// [--benchmark_filter=…]. Arguments: prefixes in the pool, tokens of the prompt. "us/1000": the
// time for 1,000 tokens of the prompt. Criterion: at most 20.
#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "engine/prefix_index.h"

namespace {

using tinyloop::engine::PrefixIndex;
using tinyloop::engine::PrefixKey;

constexpr PrefixKey kKey{.loops = 8, .window = 0};

using Tokens = std::vector<int32_t>;

Tokens prompt_of(int64_t length) {
  Tokens tokens(static_cast<size_t>(length));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

void find(benchmark::State& state, const PrefixIndex& index, const Tokens& prompt) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(index.find(prompt, kKey));
    benchmark::DoNotOptimize(index.find_at_other_loops(prompt, kKey));
  }
  // An inverted rate is seconds of CPU time over this number; it is printed with the unit s.
  const double thousands_in_millions = double(prompt.size()) * double(state.iterations()) * 1e-9;
  state.counters["us/1000"] = benchmark::Counter(
      thousands_in_millions, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// The prompt leaves prefix i after i steps of equal length: the walk passes a branch at each of
// them, down to the last token but one.
void staircase(benchmark::State& state) {
  const int64_t entries = state.range(0), length = state.range(1);
  const Tokens prompt = prompt_of(length);
  PrefixIndex index({.entries = size_t(entries)});
  for (int64_t i = 1; i <= entries; ++i) {
    Tokens tokens = prompt;
    tokens[size_t((length - 1) * i / entries)] = 1;  // not in the prompt
    index.insert(tokens, kKey, 0);
  }
  find(state, index, prompt);
}

// Every prefix but one is another text from its first token on.
void one_match(benchmark::State& state) {
  const int64_t entries = state.range(0), length = state.range(1);
  const Tokens prompt = prompt_of(length);
  PrefixIndex index({.entries = size_t(entries)});
  index.insert(prompt, kKey, 0);
  for (int64_t i = 1; i < entries; ++i) {
    Tokens tokens = prompt;
    tokens[0] = int32_t(length + 100 + i);
    index.insert(tokens, kKey, 0);
  }
  find(state, index, prompt);
}

// None of the prefixes has anything in common with the prompt.
void no_match(benchmark::State& state) {
  const int64_t entries = state.range(0), length = state.range(1);
  PrefixIndex index({.entries = size_t(entries)});
  for (int64_t i = 0; i < entries; ++i) {
    Tokens tokens = prompt_of(length);
    tokens[0] = int32_t(length + 100 + i);
    index.insert(tokens, kKey, 0);
  }
  find(state, index, prompt_of(length));
}

BENCHMARK(staircase)->ArgsProduct({{16, 1000}, {1000, 8000}});
BENCHMARK(one_match)->ArgsProduct({{16, 1000}, {1000, 8000}});
BENCHMARK(no_match)->ArgsProduct({{16, 1000}, {1000, 8000}});

}  // namespace

BENCHMARK_MAIN();
