#include "prompt_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "failure.h"
#include "id_list.h"

namespace tinyloop::cli {

void PromptArguments::add_to(CLI::App& app) {
  text_option_ = app.add_option("-p,--prompt", text_, "prompt as a text");
  tokens_option_ = app.add_option("--tokens", tokens_, "prompt as token ids: 1,2,3");
}

bool PromptArguments::is_text() const {
  const bool text = text_option_->count() > 0, tokens = tokens_option_->count() > 0;
  if (text == tokens) {
    refuse("prompt", text ? "both --prompt and --tokens" : "neither --prompt nor --tokens",
           "exactly one of them");
  }
  return text;
}

std::vector<int32_t> PromptArguments::tokens() const {
  return parse_ids("--tokens", tokens_);
}

std::vector<int32_t> PromptArguments::encoded(const Tokenizer& tokenizer) const {
  return is_text() ? tokenizer.encode(text_) : tokens();
}

}  // namespace tinyloop::cli
