#include <cstdio>

#include "bench/calls.h"
#include "bench/reuse/tables.h"
#include "bench/samples.h"

namespace tinyloop::bench {

namespace {

// The same request behind a cached prefix and without one.
struct Requests {
  GenerateRequest plain, one_more, whole;
};

Requests requests_of(const Model& model, int32_t loops, const FirstTokenSettings& settings) {
  auto tokens = some_tokens(settings.prefix, model.info().vocab, 1);
  PrefixRequest prefix;
  prefix.tokens = tokens;
  prefix.loops = loops;
  const PrefixCache cache = build_prefix(model, prefix);
  Requests requests;
  requests.one_more = greedy({1}, loops, 1);
  requests.whole = greedy({}, loops, 1);
  requests.one_more.prefix = requests.whole.prefix = cache;
  tokens.push_back(1);
  requests.plain = greedy(std::move(tokens), loops, 1);
  return requests;
}

double replica_us(const GenerateResult& result) {
  return result.timings.queue_us + result.timings.prefill_us;
}

void print_row(const char* what, const Samples& samples, const Samples& token) {
  std::printf("| %s | %s | %s |\n", what, spread(scaled(samples, 1e-3), 3).c_str(),
              spread(ratios(samples, token), 3).c_str());
}

}  // namespace

void print_first_token(const Model& model, int32_t loops, int32_t rounds,
                       const FirstTokenSettings& settings) {
  const Requests r = requests_of(model, loops, settings);
  Samples inside, inside_whole;  // one a run of the variant, the warm-up first
  // As many calls as the generation has tokens, averaged like them: what disturbs one disturbs the
  // other.
  const auto by_caller = [&](const GenerateRequest& request, Samples& in_replica) {
    return [&] {
      double replica = 0;
      const double us = elapsed_us([&] {
        for (int32_t i = 0; i < settings.decoded; ++i) {
          replica += replica_us(generate(model, request));
        }
      });
      in_replica.push_back(replica / settings.decoded);
      return us / settings.decoded;
    };
  };
  const auto samples =
      take_turns(rounds, {[&] { return decode_token_us(model, r.one_more, settings.decoded); },
                          by_caller(r.one_more, inside), by_caller(r.whole, inside_whole),
                          [&] { return call_us(model, r.plain); }});
  for (auto* in_replica : {&inside, &inside_whole}) in_replica->erase(in_replica->begin());
  std::printf(
      "\n## First token behind a prefix of %d positions, %d loops\n\n"
      "| | ms | in decode tokens |\n|---|---|---|\n",
      settings.prefix, loops);
  const Samples& token = samples[0];
  print_row("one decode token of a running generation there", token, token);
  print_row("first token, prefix and one token more, seen by the caller", samples[1], token);
  const bool wall = clock() == Clock::wall;
  if (wall) print_row("the same in the replica, from submission to sampling", inside, token);
  print_row("first token, prefix alone, seen by the caller", samples[2], token);
  if (wall) print_row("the same in the replica", inside_whole, token);
  print_row("first token without the prefix, seen by the caller", samples[3], token);
  const double ratio = median(ratios(samples[1], token));
  std::printf("\nPrefix and one token more: %.3f decode tokens; at most 1.15: %s.\n", ratio,
              ratio <= 1.15 ? "met" : "missed");
}

}  // namespace tinyloop::bench
