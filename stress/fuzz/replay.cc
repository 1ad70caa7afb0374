// Runs a fuzz target on files, without libFuzzer: PROGRAM FILE-OR-FOLDER …
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "stress/fuzz/target.h"

namespace fs = std::filesystem;

namespace {

void run(const fs::path& path) {
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

int run_all(const fs::path& path) {
  if (!fs::is_directory(path)) {
    run(path);
    return 1;
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(path)) files += run_all(entry.path());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) files += run_all(argv[i]);
  std::printf("%d inputs\n", files);
  return files == 0 ? 2 : 0;
}
