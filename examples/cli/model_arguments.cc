#include "model_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "failure.h"

namespace tinyloop::cli {

namespace {

EngineOptions engine_options() {
  EngineOptions options;
  options.log = [](LogLevel level, std::string_view message) {
    if (level != LogLevel::warning) return;
    std::cerr << "tinyloop: warning: " + std::string(message) + "\n" << std::flush;
  };
  return options;
}

ArithmeticMode parse_mode(const std::string& name) {
  for (const ArithmeticMode mode :
       {ArithmeticMode::automatic, ArithmeticMode::int8, ArithmeticMode::f32, ArithmeticMode::f16,
        ArithmeticMode::fast}) {
    if (name == to_string(mode)) return mode;
  }
  refuse("--mode", "'" + name + "'", "auto, int8, f32, f16 or fast");
}

}  // namespace

void ModelArguments::add_basic(CLI::App& app) {
  app.add_option("-m,--model", path, "model file (GGUF)")->required();
  app.add_option("--device", options.device, "auto, cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", options.cpu_threads, "CPU threads, 0: one per core")
      ->capture_default_str();
}

void ModelArguments::add_all(CLI::App& app) {
  add_basic(app);
  app.add_option_function<std::string>(
         "--mode", [this](const std::string& name) { options.mode = parse_mode(name); },
         "arithmetic: int8 or f32 on the CPU, f16 or fast on a GPU; auto: int8 or f16")
      ->default_str(to_string(options.mode));
  app.add_option("--max-seq-len", options.max_seq_len, "positions a request may use")
      ->capture_default_str();
  app.add_option("--prefill-chunk", options.prefill_chunk,
                 "rows of the scratch buffers, 0: as many as --max-seq-len")
      ->capture_default_str();
  app.add_option("--fp16-cache-bytes", options.fp16_cache_bytes,
                 "mode fast: bytes of FP16 copies of matrices");
}

LoadedModel::LoadedModel(const ModelArguments& arguments)
    : engine_(engine_options()), model_(engine_.load(arguments.path, arguments.options)) {}

}  // namespace tinyloop::cli
