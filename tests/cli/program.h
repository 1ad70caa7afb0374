// Runs a program and keeps what it wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tinyloop::test {

struct Outcome {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string out;
  std::string err;
};

// `stdout_path`: where its output goes instead; Outcome::out is then empty.
Outcome run_program(const std::string& path, const std::vector<std::string>& arguments,
                    const std::string& stdout_path = "");

// `tinyloop` with these arguments.
Outcome run_cli(const std::vector<std::string>& arguments, const std::string& stdout_path = "");
// `tinyloop SUBCOMMAND -m <the demo model> --device …`: the device that tests run on.
Outcome run_on_model(const std::string& subcommand, const std::vector<std::string>& arguments);
// The same with --json, as parsed output. Fails the test unless it exits with 0 and wrote JSON.
nlohmann::json json_on_model(const std::string& subcommand,
                             const std::vector<std::string>& arguments);

std::string demo_model_path();
std::string golden_path();
std::vector<std::string> lines_of(const std::string& text);

// Fails the test unless the program ended with `exit_code`, wrote nothing to stdout, and said one
// line on stderr that begins with "tinyloop: " and contains `words`.
void expect_failure(const Outcome& outcome, int exit_code, const std::string& words);

// A file that is deleted with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents = "");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  std::string contents() const;

 private:
  std::string path_;
};

}  // namespace tinyloop::test
