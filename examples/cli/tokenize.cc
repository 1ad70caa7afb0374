// tinyloop tokenize: text to token ids, or back.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "commands.h"
#include "failure.h"
#include "id_list.h"
#include "model_arguments.h"
#include "output.h"
#include "prompt_arguments.h"

namespace tinyloop::cli {

namespace {

struct TokenizeArguments {
  ModelArguments model;
  PromptArguments prompt;
  bool decode = false;
  bool json = false;
};

void check(const TokenizeArguments& arguments) {
  if (arguments.prompt.is_text() != arguments.decode) return;
  if (arguments.decode) refuse("--decode", "given with --prompt", "--tokens");
  refuse("--tokens", "given without --decode", "--prompt, or --decode with --tokens");
}

void run_tokenize(const TokenizeArguments& arguments) {
  check(arguments);
  const LoadedModel model(arguments.model);
  const Tokenizer tokenizer = model->tokenizer();
  Json json;
  if (arguments.decode) {
    const std::string text = tokenizer.decode(arguments.prompt.tokens());
    if (!arguments.json) return write(text + "\n");
    json["text"] = text;
  } else {
    const std::vector<int32_t> ids = tokenizer.encode(arguments.prompt.text());
    if (!arguments.json) return write(join_ids(ids) + "\n");
    json["tokens"] = ids;
  }
  write_line(json);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids, or back with --decode");
  const auto arguments = std::make_shared<TokenizeArguments>();
  arguments->model.options.max_seq_len = 1;  // nothing is computed: the smallest buffers
  arguments->model.add_basic(*command);
  arguments->prompt.add_to(*command);
  command->add_flag("--decode", arguments->decode, "token ids to text");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace tinyloop::cli
