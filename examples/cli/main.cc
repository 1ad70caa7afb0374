// tinyloop: the command line of the engine.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <iostream>

#include "commands.h"
#include "failure.h"

namespace {

using namespace tinyloop::cli;

std::string subcommand_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + subcommand->get_name();
  }
  return names;
}

// --help and the like leave the parser as exceptions, too, with exit code 0.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == int(CLI::ExitCodes::Success)) return app.exit(error);
  return report_failure(tinyloop::errc::invalid_argument,
                        std::string("command line: ") + error.what());
}

int run(int argc, char** argv) {
  CLI::App app("TinyLoop: inference of looped transformers", "tinyloop");
  app.require_subcommand(0, 1);  // none is refused below: CLI11 would not name a misspelt one
  add_generate(app);
  add_score(app);
  add_tokenize(app);
  add_inspect(app);
  add_bench(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      refuse("command line", "no subcommand", subcommand_names(app));
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  } catch (const tinyloop::base::Failure& failure) {
    return report_failure(failure.error());
  } catch (const boost::system::system_error& error) {
    return report_failure(tinyloop::errc_of(error.code()), error.code().message());
  } catch (const std::bad_alloc&) {
    return report_failure({tinyloop::errc::out_of_memory, "the command line has no memory left"});
  } catch (const std::exception& error) {
    return report_failure({tinyloop::errc::internal, error.what()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
