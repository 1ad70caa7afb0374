// The files that the golden tests read.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tinyloop::testing {

inline std::string golden_model() {
  return TINYLOOP_SOURCE_DIR "/models/tinyloop-tales-16m-q4_1.gguf";
}

inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream in(TINYLOOP_SOURCE_DIR "/tests/golden/" + name);
  return nlohmann::json::parse(in);
}

}  // namespace tinyloop::testing
