// The options of `tinyloop bench`, and what they ask for.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "model_arguments.h"
#include "sampling_arguments.h"

namespace tinyloop::cli {

// As given on the command line: lists are not parsed yet. CLI11 keeps references to the fields: the
// object must stay in place until the line is parsed.
struct BenchArguments {
  ModelArguments model;
  GenerateConfig sampling;
  std::vector<std::string> samplings;
  std::string prompt_tokens = "128";
  std::string gen_tokens = "64";
  std::string contexts = "32";
  std::string callers = "1,8,32";
  std::string loops;  // empty: the file's default
  std::string rates;  // empty: no serving
  int32_t requests = 200;
  int32_t max_sequences = 128;
  int32_t repeat = 3;
  bool json = false;

  void add_to(CLI::App& app);
};

// What is measured. Prefill and decoding, or with `rates` serving in their place.
struct BenchPlan {
  std::vector<int32_t> prompt_tokens;  // >= 1; of prefill, or drawn for each request of serving
  std::vector<int32_t> gen_tokens;     // >= 1; of decoding, or likewise
  std::vector<int32_t> contexts;       // >= 1
  std::vector<int32_t> callers;        // >= 1
  std::vector<double> rates;           // requests a second, > 0
  std::vector<Sampling> samplings;     // at least one
  int32_t requests = 0;                // of serving, for each rate
  int32_t repeat = 0;
};

// `app` has parsed the line. Throws base::Failure(invalid_argument) that names the option.
BenchPlan plan_of(const BenchArguments& arguments, const CLI::App& app);

// Raises what the runs need and leaves the rest as it is: room for the longest request, for all
// callers in one pass, and K/V for as many as the device's memory holds.
void fit_options(const BenchPlan& plan, const BenchArguments& arguments, ModelOptions& options);

}  // namespace tinyloop::cli
