// tinyloop score: how likely the model finds a text.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <boost/asio/use_future.hpp>
#include <cmath>
#include <memory>
#include <sstream>

#include "commands.h"
#include "model_arguments.h"
#include "output.h"
#include "prompt_arguments.h"

namespace tinyloop::cli {

namespace {

struct ScoreArguments {
  ModelArguments model;
  PromptArguments prompt;
  std::optional<int32_t> loops;
  std::optional<int32_t> cache_window;
  bool json = false;
};

// One line a token, then the mean and the perplexity.
std::string score_text(const std::vector<int32_t>& tokens, const std::vector<float>& logprobs) {
  std::ostringstream text;
  double sum = 0;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    text << tokens[i + 1] << ' ' << logprobs[i] << '\n';
    sum += logprobs[i];
  }
  if (logprobs.empty()) return "nothing to score: one token\n";
  const double mean = sum / static_cast<double>(logprobs.size());
  text << "mean " << mean << ", perplexity " << std::exp(-mean) << '\n';
  return text.str();
}

void run_score(const ScoreArguments& arguments) {
  arguments.prompt.is_text();  // refuses a wrong command line before the model is loaded
  const LoadedModel model(arguments.model);
  ScoreRequest request;
  request.tokens = arguments.prompt.encoded(model->tokenizer());
  request.loops = arguments.loops;
  request.cache_window = arguments.cache_window;
  const ScoreResult result = model->async_score(request, boost::asio::use_future).get();
  if (arguments.json) {
    Json json;
    json["logprobs"] = result.logprobs;
    return write_line(json);
  }
  write(score_text(request.tokens, result.logprobs));
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("score", "Log-probability of each token of a text after the first");
  const auto arguments = std::make_shared<ScoreArguments>();
  arguments->model.add_all(*command);
  arguments->prompt.add_to(*command);
  command->add_option("--loops", arguments->loops, "loop iterations a token; default: the file's");
  command->add_option("--cache-window", arguments->cache_window,
                      "attend to the last n positions alone, 0: all");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { run_score(*arguments); });
}

}  // namespace tinyloop::cli
