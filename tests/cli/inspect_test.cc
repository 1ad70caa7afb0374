#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

std::string model_bytes() {
  std::ostringstream bytes;
  bytes << std::ifstream(demo_model_path(), std::ios::binary).rdbuf();
  return bytes.str();
}

TEST(Inspect, JsonOfTheDemoModel) {
  const Outcome outcome = run_cli({"inspect", demo_model_path(), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json model = json::parse(outcome.out);
  EXPECT_EQ(model.at("architecture"), "tinyloop");
  EXPECT_EQ(model.at("prelude_layers"), 1);
  EXPECT_EQ(model.at("shared_layers"), 2);
  EXPECT_EQ(model.at("coda_layers"), 1);
  EXPECT_EQ(model.at("width"), 512);
  EXPECT_EQ(model.at("vocabulary"), 8192);
  EXPECT_FALSE(model.contains("tensors"));
}

TEST(Inspect, TensorsOnRequest) {
  const Outcome outcome = run_cli({"inspect", demo_model_path(), "--json", "--tensors"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json model = json::parse(outcome.out);
  bool found = false;
  for (const json& tensor : model.at("tensors")) {
    if (tensor.at("name") != "token_embd.weight") continue;
    found = true;
    EXPECT_EQ(tensor.at("shape"), json::parse("[512, 8192]"));
  }
  EXPECT_TRUE(found);
}

TEST(Inspect, TextNamesTheLoop) {
  const Outcome outcome = run_cli({"inspect", demo_model_path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("1 prelude / 2 shared / 1 coda"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("token_embd.weight"), std::string::npos);
  const Outcome tensors = run_cli({"inspect", demo_model_path(), "--tensors"});
  EXPECT_NE(tensors.out.find("token_embd.weight"), std::string::npos) << tensors.out;
}

TEST(Inspect, RefusesBrokenFiles) {
  const std::string bytes = model_bytes();
  const TemporaryFile cut(bytes.substr(0, bytes.size() / 2));
  const TemporaryFile header(bytes.substr(0, 20));
  std::string later = bytes.substr(0, 4096);
  later[4] = 99;
  const TemporaryFile version(later);
  expect_failure(run_cli({"inspect", cut.path()}), 2, cut.path());
  expect_failure(run_cli({"inspect", header.path(), "--json"}), 2, header.path());
  expect_failure(run_cli({"inspect", version.path()}), 2, "GGUF version 99");
  expect_failure(run_cli({"inspect", "/"}), 2, "is not a regular file");
  expect_failure(run_cli({"inspect", cut.path() + ".missing"}), 2, "cannot open");
}

}  // namespace
}  // namespace tinyloop::test
