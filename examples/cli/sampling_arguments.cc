#include "sampling_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "failure.h"

namespace tinyloop::cli {

namespace {

constexpr const char* kGroup = "Sampling";
constexpr const char* kGreedy = "greedy";

// CLI11 would let a negative number wrap around.
std::string refuse_negative(const std::string& text) {
  return text.starts_with('-') ? text + ", allowed: 0 to 2^64 - 1" : "";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// "17:-2.5".
LogitBias parse_bias(const std::string& text) {
  LogitBias bias;
  char end = 0;
  if (std::sscanf(text.c_str(), "%d:%f%c", &bias.token, &bias.bias, &end) == 2) return bias;
  throw CLI::ValidationError("--logit-bias", "'" + text + "', allowed: TOKEN:BIAS, as 17:-2.5");
}

GenerateConfig parse_kind(const std::string& text, const GenerateConfig& base) {
  if (text == kGreedy) return {};
  GenerateConfig config = base;
  CLI::App app;
  app.set_help_flag();  // "help" is no sampling option
  add_sampling(app, config);
  const auto refused = [&text](const std::string& why) {
    refuse("--sampling", "'" + text + "' (" + why + ")",
           "greedy, or sampling options such as temperature=0.8,top-k=40");
  };
  std::vector<std::string> options;
  for (const std::string& option : split(text, ',')) {
    if (option.empty()) refused("an option without a name");
    options.push_back("--" + option);
  }
  if (options.empty()) refused("nothing");
  std::reverse(options.begin(), options.end());  // as CLI11 takes them
  try {
    app.parse(options);
  } catch (const CLI::ParseError& error) {
    refused(error.what());
  }
  return config;
}

}  // namespace

void add_sampling(CLI::App& app, GenerateConfig& config) {
  const auto add = [&app](const char* name, auto& field, const char* what) {
    return app.add_option(name, field, what)->capture_default_str()->group(kGroup);
  };
  add("--temperature", config.temperature, "0: greedy");
  add("--top-k", config.top_k, "keep the k most likely tokens, 0: off");
  add("--top-p", config.top_p, "keep the most likely tokens of this joint probability, 1: off");
  add("--min-p", config.min_p, "drop tokens below this share of the most likely one, 0: off");
  add("--repetition-penalty", config.repetition_penalty, "over prompt and output, 1: off");
  add("--presence-penalty", config.presence_penalty, "off tokens that the output has, 0: off");
  add("--frequency-penalty", config.frequency_penalty,
      "off tokens for each time that the output has them, 0: off");
  add("--min-tokens", config.min_tokens, "before so many nothing ends the output but a stop text");
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&config](const std::vector<std::string>& biases) {
           config.logit_bias.clear();
           for (const std::string& bias : biases) config.logit_bias.push_back(parse_bias(bias));
         },
         "TOKEN:BIAS, added to the token's logit; may be given several times")
      ->group(kGroup);
  add("--seed", config.seed, "of the random draws")->check(refuse_negative);
}

std::string sampling_given(const CLI::App& app) {
  std::string given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != kGroup || option->count() == 0) continue;
    given += (given.empty() ? "" : ",") + option->get_single_name() + "=" + option->results()[0];
  }
  return given.empty() ? kGreedy : given;
}

Sampling parse_sampling(const std::string& text, const GenerateConfig& base) {
  Sampling sampling{text, {}};
  for (const std::string& kind : split(text, '+')) {
    sampling.kinds.push_back(parse_kind(kind, base));
  }
  if (sampling.kinds.empty()) sampling.kinds.push_back(parse_kind(text, base));
  return sampling;
}

}  // namespace tinyloop::cli
