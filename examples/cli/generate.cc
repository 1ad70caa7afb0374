// tinyloop generate: continues a prompt.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <boost/asio/use_future.hpp>
#include <memory>

#include "commands.h"
#include "id_list.h"
#include "model_arguments.h"
#include "prompt_arguments.h"
#include "result_json.h"
#include "sampling_arguments.h"
#include "trace_file.h"

namespace tinyloop::cli {

namespace {

struct GenerateArguments {
  ModelArguments model;
  PromptArguments prompt;
  GenerateConfig config;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool stream = false;
  bool json = false;
  std::string trace;  // a file; empty: none

  GenerateRequest request() const {
    GenerateRequest request;
    if (prompt.is_text()) {
      request.text = prompt.text();
    } else {
      request.tokens = prompt.tokens();
    }
    request.config = config;
    request.config.eos = ignore_eos ? EosMode::ignore : EosMode::stop;
    request.config.stop_sequences.assign(stops.begin(), stops.end());
    return request;
  }
};

void add_lengths(CLI::App& app, GenerateConfig& config) {
  app.add_option("--max-tokens", config.max_tokens, "at most so many new tokens")
      ->capture_default_str();
  app.add_option("--loops", config.loops, "loop iterations a token; default: the file's");
  app.add_option("--logprobs", config.logprobs,
                 "with --json: log-probabilities, and those of the n most likely tokens");
  app.add_option("--cache-window", config.cache_window,
                 "attend to the last n positions alone, 0: all");
}

// Text as it comes, or one JSON line a chunk; the error of a chunk that cannot be written ends the
// request, so it is kept and thrown at the end.
void run_stream(const Model& model, const GenerateRequest& request, bool json) {
  std::exception_ptr failed;
  const auto show = [&](const StreamChunk& chunk) {
    try {
      if (json) {
        write_line(chunk_json(chunk));
      } else {
        write(model.tokenizer() ? chunk.text : join_ids(chunk.tokens) + " ");
      }
    } catch (...) {
      failed = std::current_exception();
      throw;
    }
  };
  model.async_generate(request, show, boost::asio::use_future).get();
  if (failed) std::rethrow_exception(failed);
  if (!json) write("\n");
}

void run_whole(const Model& model, const GenerateRequest& request, bool json) {
  const GenerateResult result = model.async_generate(request, boost::asio::use_future).get();
  if (json) return write_line(generate_json(result));
  const auto first = result.tokens.begin() + static_cast<std::ptrdiff_t>(result.prompt_tokens);
  write((model.tokenizer() ? result.text : join_ids({first, result.tokens.end()})) + "\n");
}

void run_generate(GenerateArguments arguments) {
  const GenerateRequest request = arguments.request();
  TraceFile trace(arguments.trace);
  trace.ask_for(arguments.model.options);
  const LoadedModel model(arguments.model);
  (arguments.stream ? run_stream : run_whole)(*model, request, arguments.json);
  trace.write(*model);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt");
  const auto arguments = std::make_shared<GenerateArguments>();
  arguments->model.add_all(*command);
  arguments->prompt.add_to(*command);
  add_lengths(*command, arguments->config);
  add_sampling(*command, arguments->config);
  command->add_option("--stop", arguments->stops, "stop before this text; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", arguments->ignore_eos, "go on past the end of the sequence");
  command->add_flag("--stream", arguments->stream, "print the text as it comes");
  command->add_flag("--json", arguments->json, "print JSON");
  command->add_option("--trace", arguments->trace,
                      "write a trace of every step to this file, for ui.perfetto.dev");
  command->callback([arguments] { run_generate(*arguments); });
}

}  // namespace tinyloop::cli
