#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "bench/calls.h"
#include "bench/reuse/arithmetic.h"
#include "bench/reuse/tables.h"
#include "bench/samples.h"

namespace tinyloop::bench {

namespace {

constexpr double kDocumented = 0.325;  // saving that looped models of 407M have been reported with

struct Tail {
  int32_t tokens;
  Samples plain, resumed;
};

struct Measured {
  std::vector<Tail> tails;
  Samples build, shallow, resumed_shallow;  // at the depth of the handle, one new token
  Samples decode_token;                     // at the greater depth, by the longest tail
};

GenerateRequest resuming(const ResumeHandle& handle, int32_t loops, int32_t max_tokens) {
  GenerateRequest request = greedy({}, loops, max_tokens);
  request.resume = handle;
  request.resume_loops = loops;
  return request;
}

Measured measure(const Model& model, int32_t rounds, const ResumeSettings& settings) {
  const auto tokens = some_tokens(settings.prompt, model.info().vocab, 1);
  ResumeRequest build{.max_loops = settings.to};
  build.prefix.tokens = tokens;
  build.prefix.loops = settings.from;
  const ResumeHandle handle = build_resume(model, build);
  std::vector<std::function<double()>> variants;
  const auto add = [&](GenerateRequest request) {
    variants.emplace_back(
        [&model, request = std::move(request)] { return call_us(model, request); });
  };
  variants.emplace_back([&] { return call_us(model, build); });
  add(greedy(tokens, settings.from, 1));
  add(resuming(handle, settings.from, 1));
  for (const int32_t tail : settings.tails) {
    add(greedy(tokens, settings.to, tail));
    add(resuming(handle, settings.to, tail));
  }
  const int32_t longest = std::max(settings.tails.back(), 16);
  const auto last = resuming(handle, settings.to, 1);
  variants.emplace_back([&] { return decode_token_us(model, last, longest); });
  auto samples = take_turns(rounds, variants);
  Measured measured;
  measured.build = std::move(samples[0]);
  measured.shallow = std::move(samples[1]);
  measured.resumed_shallow = std::move(samples[2]);
  for (size_t i = 0; i < settings.tails.size(); ++i) {
    measured.tails.push_back(
        {settings.tails[i], std::move(samples[3 + 2 * i]), std::move(samples[4 + 2 * i])});
  }
  measured.decode_token = std::move(samples.back());
  return measured;
}

void print_tails(const Measured& measured, double skipped) {
  std::printf(
      "| new tokens | generate, ms | resume, ms | saving, %% | saving ÷ skipped work |\n"
      "|---|---|---|---|---|\n");
  for (const Tail& tail : measured.tails) {
    const Samples saving = savings(tail.resumed, tail.plain);
    std::printf(
        "| %d | %s | %s | %s | %s |\n", tail.tokens, spread(scaled(tail.plain, 1e-3), 1).c_str(),
        spread(scaled(tail.resumed, 1e-3), 1).c_str(), spread(scaled(saving, 100), 1).c_str(),
        spread(scaled(saving, 1 / skipped), 3).c_str());
  }
}

// Plain: P + (T - 1) d, resumed: R + (T - 1) d, for T new tokens; the saving falls as T grows.
void print_documented(const Measured& measured) {
  const Tail& first = measured.tails.front();
  const double plain = median(first.plain), saved = plain - median(first.resumed);
  const double token = median(measured.decode_token);
  const double tail = 1 + (saved / kDocumented - plain) / token;
  std::printf("\nOne more token takes %.2f ms: the saving falls to %.1f %% at %.0f new tokens.\n",
              token * 1e-3, kDocumented * 100, std::max(tail, 1.0));
}

void print_uses(const char* what, const Samples& cost, const Samples& saved) {
  const Samples uses = ratios(cost, saved);
  const double paid = std::max(1.0, std::ceil(median(uses)));
  std::printf("| %s | %s | %s | %s | %.0f |\n", what, spread(scaled(cost, 1e-3), 1).c_str(),
              spread(scaled(saved, 1e-3), 1).c_str(), spread(uses, 2).c_str(), paid);
}

// From which number of calls on the handle is the cheaper way.
void print_break_even(const Measured& measured, const ResumeSettings& settings) {
  const Tail& first = measured.tails.front();
  const Samples saved = differences(first.plain, first.resumed);
  std::printf(
      "\n| the handle | it costs, ms | a resume saves, ms | cost ÷ saving | paid after uses |\n"
      "|---|---|---|---|---|\n");
  print_uses("is built for resuming alone", measured.build, saved);
  Samples more = differences(measured.build, measured.shallow);
  for (size_t i = 0; i < more.size(); ++i) more[i] += measured.resumed_shallow[i];
  const std::string what =
      "gives an answer at " + std::to_string(settings.from) + " loops first, wanted anyway";
  print_uses(what.c_str(), more, saved);
  std::printf(
      "\nAlone: build + k resumes against k calls of generate at %d loops, so the first use and\n"
      "one reuse pay it where cost ÷ saving is at most 2. With an answer first: build, resume at\n"
      "%d, k resumes against generate at %d and k times at %d; its cost is build + resume at %d\n"
      "- generate at %d (%.1f + %.1f - %.1f ms).\n",
      settings.to, settings.from, settings.from, settings.to, settings.from, settings.from,
      median(measured.build) * 1e-3, median(measured.resumed_shallow) * 1e-3,
      median(measured.shallow) * 1e-3);
}

}  // namespace

void print_resume(const Model& model, int32_t rounds, const ResumeSettings& settings) {
  const ModelInfo info = model.info();
  const Measured measured = measure(model, rounds, settings);
  const double skipped = skipped_by_resume(info, settings.from, settings.to);
  std::printf(
      "\n## Resume, %d to %d loops, prompt of %d tokens\n\n"
      "Skipped ÷ total prefill work: (%d + %d · %d) ÷ (%d + %d · %d + %d) = %.1f %% of the "
      "layers;\n"
      "attention is the same part of each.\n\n",
      settings.from, settings.to, settings.prompt, info.prelude_layers, settings.from,
      info.shared_layers, info.prelude_layers, settings.to, info.shared_layers, info.coda_layers,
      skipped * 100);
  print_tails(measured, skipped);
  print_documented(measured);
  print_break_even(measured, settings);
  const Tail& first = measured.tails.front();
  const double ratio = median(savings(first.resumed, first.plain)) / skipped;
  const double uses = median(ratios(measured.build, differences(first.plain, first.resumed)));
  std::printf("\nSaving ÷ skipped work, %d new token: %.3f; at least 0.95: %s.\n", first.tokens,
              ratio, ratio >= 0.95 ? "met" : "missed");
  std::printf("Built for resuming alone, paid by the first use and one reuse: %s.\n",
              uses <= 2 ? "met" : "missed");
}

}  // namespace tinyloop::bench
