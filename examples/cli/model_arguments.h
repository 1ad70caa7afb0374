// The options of every subcommand that loads a model.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "tinyloop/engine.h"

namespace tinyloop::cli {

// CLI11 keeps references to the fields: the object must stay in place until the line is parsed.
struct ModelArguments {
  std::string path;
  ModelOptions options;

  // -m/--model and --threads.
  void add_basic(CLI::App& app);
  // And --mode, --max-seq-len, --prefill-chunk, --fp16-cache-bytes.
  void add_all(CLI::App& app);
};

// An engine with one model. Warnings go to stderr as "tinyloop: warning: …"; errors do not, they
// come back to the caller.
class LoadedModel {
 public:
  // Throws boost::system::system_error.
  explicit LoadedModel(const ModelArguments& arguments);
  const Model* operator->() const { return &model_; }
  const Model& operator*() const { return model_; }

 private:
  Engine engine_;
  Model model_;
};

}  // namespace tinyloop::cli
