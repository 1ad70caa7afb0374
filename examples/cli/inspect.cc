// tinyloop inspect: what is in a model file. Reads the header alone; nothing is loaded.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "commands.h"
#include "engine/gguf_reader.h"
#include "engine/model_description.h"
#include "engine/model_spec.h"
#include "output.h"

namespace tinyloop::cli {

namespace {

struct InspectArguments {
  std::string path;
  bool tensors = false;
  bool json = false;
};

void run_inspect(const InspectArguments& arguments) {
  const engine::GgufFile file = engine::GgufFile::open(arguments.path).value();
  const engine::ModelSpec spec = engine::read_model_spec(file).value();
  if (arguments.json) {
    write_line(engine::model_description_json(file, spec, arguments.tensors));
  } else {
    write(engine::describe_model(file, spec, arguments.tensors));
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Describe a model file");
  const auto arguments = std::make_shared<InspectArguments>();
  command->add_option("file", arguments->path, "model file (GGUF)")->required();
  command->add_flag("--tensors", arguments->tensors, "list the tensors, too");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace tinyloop::cli
