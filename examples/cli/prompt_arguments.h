// A prompt on the command line: -p/--prompt TEXT or --tokens 1,2,3.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tinyloop/tokenizer.h"

namespace tinyloop::cli {

class PromptArguments {
 public:
  void add_to(CLI::App& app);

  // Which of the two was given. Throws base::Failure(invalid_argument) unless exactly one was.
  bool is_text() const;
  const std::string& text() const { return text_; }
  // Throws base::Failure(invalid_argument) for anything but numbers.
  std::vector<int32_t> tokens() const;
  // The tokens, or the text encoded. Throws boost::system::system_error without a tokenizer.
  std::vector<int32_t> encoded(const Tokenizer& tokenizer) const;

 private:
  std::string text_, tokens_;
  CLI::Option* text_option_ = nullptr;
  CLI::Option* tokens_option_ = nullptr;
};

}  // namespace tinyloop::cli
