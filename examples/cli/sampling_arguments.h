// How tokens are chosen, as options of the command line.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "tinyloop/generate.h"

namespace tinyloop::cli {

// --temperature, --top-k and the others that choose a token. CLI11 keeps references to the fields:
// `config` must stay in place until the line is parsed.
void add_sampling(CLI::App& app, GenerateConfig& config);

// The sampling options that the parsed line names, "temperature=0.8,top-k=40"; none: "greedy".
std::string sampling_given(const CLI::App& app);

// How the callers of one measurement choose their tokens.
struct Sampling {
  std::string name;                   // as it was asked for
  std::vector<GenerateConfig> kinds;  // at least one; caller i takes kind i modulo their number
};

// A kind is "greedy" or names options without their dashes, "temperature=0.8,top-k=40", which
// change `base`. Several kinds are joined by '+'. Throws base::Failure(invalid_argument) that names
// --sampling.
Sampling parse_sampling(const std::string& text, const GenerateConfig& base);

}  // namespace tinyloop::cli
