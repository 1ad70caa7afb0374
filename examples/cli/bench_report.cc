#include "bench_report.h"

#include <cstdio>
#include <string>
#include <string_view>

namespace tinyloop::cli {

namespace {

constexpr size_t kRowBytes = 160;  // without the name of a way to sample

Json runs_json(const Runs& runs) {
  return {{"tokens", runs.tokens}, {"times_us", runs.times_us}};
}

Json quantiles_json(const Quantiles& quantiles) {
  return {{"p50", quantiles.p50}, {"p99", quantiles.p99}};
}

}  // namespace

BenchReport::BenchReport(const BenchArguments& arguments, const ModelOptions& options,
                         const ModelInfo& info)
    : json_(arguments.json) {
  if (json_) {
    write_line({{"model", arguments.model.path},
                {"device", info.device},
                {"mode", to_string(options.mode)},
                {"prefill_budget", options.prefill_budget},
                {"max_sequences", options.max_sequences},
                {"repeat", arguments.repeat}});
  } else {
    write(info.device + ", prefill budget " + std::to_string(options.prefill_budget) +
          ", medians of " + std::to_string(arguments.repeat) + "\n");
  }
}

void BenchReport::head(const char* table, const char* columns) {
  if (std::string_view(table_) != table) write(std::string(table) + "\n" + columns + "\n");
  table_ = table;
}

void BenchReport::add(const PrefillFigure& figure) {
  if (json_) {
    Json row = {{"kind", "prefill"},
                {"loops", figure.loops},
                {"prompts", figure.prompts},
                {"prompt_tokens", figure.prompt_tokens},
                {"tokens_per_s", figure.runs.tokens_per_s()}};
    row.update(runs_json(figure.runs));
    return write_line(row);
  }
  head("prefill", "loops  prompts  of tokens          tok/s");
  char row[kRowBytes];
  std::snprintf(row, sizeof row, "%5d %8d %10d %14.1f\n", figure.loops, figure.prompts,
                figure.prompt_tokens, figure.runs.tokens_per_s());
  write(row);
}

void BenchReport::add(const DecodeFigure& figure) {
  if (json_) {
    Json row = {{"kind", "decode"},
                {"loops", figure.loops},
                {"callers", figure.callers},
                {"context", figure.context},
                {"gen_tokens", figure.gen_tokens},
                {"sampling", figure.sampling},
                {"tokens_per_s", figure.runs.tokens_per_s()},
                {"launches_per_token", figure.runs.launches_per_token()}};
    row.update(runs_json(figure.runs));
    return write_line(row);
  }
  head("decode", "loops  callers  context  new tokens          tok/s  launches/token  sampling");
  char row[kRowBytes];
  std::snprintf(row, sizeof row, "%5d %8d %8d %11d %14.1f %15.2f  ", figure.loops, figure.callers,
                figure.context, figure.gen_tokens, figure.runs.tokens_per_s(),
                figure.runs.launches_per_token());
  write(row + figure.sampling + "\n");
}

void BenchReport::add(const ServingFigure& figure) {
  if (json_) {
    return write_line({{"kind", "serving"},
                       {"loops", figure.loops},
                       {"rate", figure.rate},
                       {"requests", figure.requests},
                       {"sampling", figure.sampling},
                       {"asked_tokens_per_s", figure.asked_per_s},
                       {"tokens_per_s", figure.tokens_per_s},
                       {"first_token_us", quantiles_json(figure.first_token_us)},
                       {"interval_us", quantiles_json(figure.interval_us)}});
  }
  head("serving",
       "loops  requests/s    asked tok/s          tok/s  first token ms, p50      p99  "
       "interval ms, p50      p99  sampling");
  char row[kRowBytes];
  std::snprintf(row, sizeof row, "%5d %11.2f %14.1f %14.1f %20.2f %8.2f %17.2f %8.2f  ",
                figure.loops, figure.rate, figure.asked_per_s, figure.tokens_per_s,
                figure.first_token_us.p50 / 1e3, figure.first_token_us.p99 / 1e3,
                figure.interval_us.p50 / 1e3, figure.interval_us.p99 / 1e3);
  write(row + figure.sampling + "\n");
}

}  // namespace tinyloop::cli
