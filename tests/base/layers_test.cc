// The one-way rule between the layers, checked on the #include lines of the source tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tinyloop {
namespace {

namespace fs = std::filesystem;

// One #include: the file it stands in, relative to the source tree, and what it names.
struct Include {
  std::string file;
  std::string target;
  bool quoted = false;  // "…", not <…>
};

constexpr std::array kLayers = {"include/tinyloop", "base", "kernels", "engine", "actors"};
// Public headers of plain values, which every layer may use.
constexpr std::array kValueHeaders = {"tinyloop/errc.h", "tinyloop/generate.h", "tinyloop/log.h",
                                      "tinyloop/options.h", "tinyloop/reports.h"};

bool under(const std::string& path, const std::string& folder) {
  return path.starts_with(folder + "/");
}

template <size_t n>
bool any_of(const std::array<const char*, n>& parts, const std::string& text) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

std::string layer_of(const std::string& file) {
  for (const char* layer : kLayers) {
    if (under(file, layer)) return layer;
  }
  return {};
}

// Quoted targets are the project's own headers. Each layer sees itself and the folders before it.
bool own_header_allowed(const std::string& layer, const std::string& target) {
  if (layer == "include/tinyloop") return under(target, "tinyloop");
  if (under(target, "tinyloop")) {
    return layer == "actors" ||
           std::find(kValueHeaders.begin(), kValueHeaders.end(), target) != kValueHeaders.end();
  }
  for (const char* below : {"base", "kernels", "engine", "actors"}) {
    if (under(target, below)) return true;
    if (layer == below) return false;
  }
  return false;
}

// System headers of the public interface: the language's (no dot, no slash) and Boost's.
bool public_system_header(const std::string& target) {
  return under(target, "boost") || target.find_first_of("./") == std::string::npos;
}

bool is_cuda_header(const std::string& target) {
  constexpr std::array kParts = {"cuda", "cublas", "nvtx", "cooperative_groups"};
  constexpr std::array kPrefixes = {"mma.h", "nccl"};
  return any_of(kParts, target) || any_of(kPrefixes, target);
}

bool cuda_allowed(const std::string& file) {
  return file.ends_with(".cu") || file.ends_with(".cuh") || under(file, "kernels/cuda");
}

bool is_threading_header(const std::string& target) {
  constexpr std::array kHeaders = {
      "thread",    "mutex", "shared_mutex", "future",     "condition_variable",
      "semaphore", "latch", "barrier",      "stop_token", "pthread.h"};
  return std::find(kHeaders.begin(), kHeaders.end(), target) != kHeaders.end() ||
         under(target, "boost/thread") || under(target, "boost/fiber");
}

// What is wrong with an include; nullopt: nothing.
std::optional<std::string> breach(const Include& include) {
  const std::string layer = layer_of(include.file);
  const std::string& target = include.target;
  if (layer.empty()) return std::nullopt;
  if (is_cuda_header(target) && !include.quoted && !cuda_allowed(include.file)) {
    return "CUDA headers belong into *.cu and kernels/cuda";
  }
  if (layer != "actors" && layer != "include/tinyloop" && target.starts_with("boost/asio")) {
    return "Asio belongs into actors";
  }
  if (layer == "engine" && !include.quoted && is_threading_header(target)) {
    return "the engine has one thread";
  }
  if (include.quoted && !own_header_allowed(layer, target)) return "not a layer below " + layer;
  if (layer == "include/tinyloop" && !include.quoted && !public_system_header(target)) {
    return "public headers need the language and Boost alone";
  }
  return std::nullopt;
}

// Steps over blanks, then over `word`, at the front of `line`; false if it is not there.
bool skip(std::string_view& line, std::string_view word) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  return true;
}

std::vector<Include> parse_includes(const std::string& file, std::istream& text) {
  std::vector<Include> includes;
  for (std::string line; std::getline(text, line);) {
    std::string_view rest = line;
    if (!skip(rest, "#") || !skip(rest, "include")) continue;
    const bool quoted = skip(rest, "\"");
    if (!quoted && !skip(rest, "<")) continue;
    includes.push_back({file, std::string(rest.substr(0, rest.find(quoted ? '"' : '>'))), quoted});
  }
  return includes;
}

bool is_source(const fs::path& path) {
  constexpr std::array kExtensions = {".h", ".cc", ".cu", ".cuh"};
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) !=
         kExtensions.end();
}

std::vector<Include> includes_of_the_tree() {
  const fs::path root = TINYLOOP_SOURCE_DIR;
  std::vector<Include> includes;
  for (const char* layer : kLayers) {
    if (!fs::exists(root / layer)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / layer)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream text(entry.path());
      const auto found = parse_includes(fs::relative(entry.path(), root).generic_string(), text);
      includes.insert(includes.end(), found.begin(), found.end());
    }
  }
  return includes;
}

TEST(Layers, IncludesPointOneWay) {
  const std::vector<Include> includes = includes_of_the_tree();
  for (const Include& include : includes) {
    const auto problem = breach(include);
    EXPECT_FALSE(problem) << include.file << " includes " << include.target << ": " << *problem;
  }
}

// The check above must have seen the tree.
TEST(Layers, TheTreeIsFound) {
  const std::vector<Include> includes = includes_of_the_tree();
  for (const char* expected : {"base", "kernels", "engine"}) {
    EXPECT_TRUE(std::any_of(includes.begin(), includes.end(), [&](const Include& include) {
      return under(include.file, expected) && under(include.target, "base");
    })) << expected;
  }
}

TEST(Layers, IncludeLinesAreParsed) {
  std::istringstream text(
      "#include <vector>\n"
      "  #  include \"base/error.h\"  // why\n"
      "// #include \"actors/commented_out.h\"\n"
      "#include<cmath>\n");
  const auto includes = parse_includes("engine/x.cc", text);
  ASSERT_EQ(includes.size(), 3u);
  EXPECT_EQ(includes[0].target, "vector");
  EXPECT_FALSE(includes[0].quoted);
  EXPECT_EQ(includes[1].target, "base/error.h");
  EXPECT_TRUE(includes[1].quoted);
  EXPECT_EQ(includes[2].target, "cmath");
}

TEST(Layers, BreachesAreSeen) {
  const Include wrong[] = {
      {"base/x.h", "kernels/weight.h", true},
      {"base/x.h", "tinyloop/engine.h", true},
      {"kernels/x_cpu.cc", "engine/planner.h", true},
      {"kernels/x_cpu.cc", "boost/asio.hpp", false},
      {"kernels/x_cpu.cc", "cuda_runtime.h", false},
      {"kernels/cpu/pool.cc", "cuda_fp16.h", false},
      {"engine/x.cc", "actors/mailbox.h", true},
      {"engine/x.cc", "thread", false},
      {"engine/x.cc", "mutex", false},
      {"engine/x.cc", "future", false},
      {"engine/x.h", "boost/asio/post.hpp", false},
      {"engine/x.h", "tinyloop/model.h", true},
      {"engine/x.h", "x_local.h", true},
      {"actors/x.cc", "tests/support/x.h", true},
      {"actors/x.cc", "cublas_v2.h", false},
      {"include/tinyloop/x.h", "base/error.h", true},
      {"include/tinyloop/x.h", "spdlog/spdlog.h", false},
      {"include/tinyloop/x.h", "cuda_runtime.h", false},
      {"include/tinyloop/detail/x.h", "hwy/highway.h", false},
      {"include/tinyloop/detail/x.h", "unicode/uchar.h", false},
      {"include/tinyloop/x.h", "nlohmann/json.hpp", false},
      {"include/tinyloop/x.h", "fmt/format.h", false},
  };
  for (const Include& include : wrong) {
    EXPECT_TRUE(breach(include)) << include.file << " includes " << include.target;
  }
}

TEST(Layers, ProperIncludesPass) {
  const Include right[] = {
      {"base/x.h", "tinyloop/errc.h", true},
      {"base/x.h", "boost/system/result.hpp", false},
      {"kernels/x_cpu.cc", "base/check.h", true},
      {"kernels/cpu/pool.cc", "thread", false},
      {"kernels/x_cuda.cu", "cuda_runtime.h", false},
      {"kernels/cuda/device.cc", "cuda_runtime.h", false},
      {"kernels/x.cc", "kernels/cuda/device.h", true},
      {"engine/x.cc", "kernels/backend.h", true},
      {"engine/x.cc", "unicode/uchar.h", false},
      {"engine/x.cc", "atomic", false},
      {"actors/x.cc", "engine/batch_engine.h", true},
      {"actors/x.cc", "tinyloop/model.h", true},
      {"actors/x.cc", "boost/asio/post.hpp", false},
      {"include/tinyloop/x.h", "tinyloop/errc.h", true},
      {"include/tinyloop/x.h", "boost/asio/any_io_executor.hpp", false},
      {"include/tinyloop/x.h", "memory", false},
      {"tests/x.cc", "anything.h", true},
  };
  for (const Include& include : right) {
    EXPECT_FALSE(breach(include)) << include.file << " includes " << include.target;
  }
}

}  // namespace
}  // namespace tinyloop
