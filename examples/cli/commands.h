// The subcommands. Each function adds one to `app`; it runs while the command line is parsed, and
// throws boost::system::system_error or whatever else main.cc knows how to report.
#pragma once

#include <CLI/App.hpp>

namespace tinyloop::cli {

void add_generate(CLI::App& app);
void add_score(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace tinyloop::cli
