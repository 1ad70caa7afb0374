#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tinyloop::test {

namespace {

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// In the child: only calls that are safe between fork and exec.
[[noreturn]] void become(const char* path, char* const* arguments, const char* out,
                         const char* err) {
  const int out_file = ::open(out, O_WRONLY), err_file = ::open(err, O_WRONLY);
  ::dup2(out_file, STDOUT_FILENO);
  ::dup2(err_file, STDERR_FILENO);
  ::execv(path, arguments);
  ::_exit(127);
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& contents) {
  std::string pattern = testing::TempDir() + "tinyloop_cli_XXXXXX";
  const int file = ::mkstemp(pattern.data());
  if (file < 0) throw std::runtime_error("no temporary file: " + pattern);
  ::close(file);
  path_ = pattern;
  std::ofstream(path_, std::ios::binary) << contents;
}

TemporaryFile::~TemporaryFile() {
  ::unlink(path_.c_str());
}

std::string TemporaryFile::contents() const {
  return read_file(path_);
}

Outcome run_program(const std::string& path, const std::vector<std::string>& arguments,
                    const std::string& stdout_path) {
  const TemporaryFile out, err;
  const std::string out_path = stdout_path.empty() ? out.path() : stdout_path;
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), path);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(path.c_str(), pointers.data(), out_path.c_str(), err.path().c_str());
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.contents(), err.contents()};
}

Outcome run_cli(const std::vector<std::string>& arguments, const std::string& stdout_path) {
  return run_program(TINYLOOP_CLI, arguments, stdout_path);
}

Outcome run_on_model(const std::string& subcommand, const std::vector<std::string>& arguments) {
  const char* device = std::getenv("TINYLOOP_TEST_DEVICE");  // tests/support/test_device.h
  std::vector<std::string> all = {subcommand, "-m", demo_model_path(), "--device",
                                  device ? device : "cpu"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_cli(all);
}

nlohmann::json json_on_model(const std::string& subcommand,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.push_back("--json");
  const Outcome outcome = run_on_model(subcommand, all);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).size(), 1u);
  nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << outcome.out;
  return json;
}

std::string demo_model_path() {
  return TINYLOOP_SOURCE_DIR "/models/tinyloop-tales-16m-q4_1.gguf";
}

std::string golden_path() {
  return TINYLOOP_SOURCE_DIR "/tests/golden/golden.json";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_failure(const Outcome& outcome, int exit_code, const std::string& words) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("tinyloop: ", 0), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err << "lacks: " << words;
}

}  // namespace tinyloop::test
