// The tokenizers and expectations of tests/golden/tokenizer/families, which
// tools/make_tokenizer_fixture.py writes.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace tinyloop::engine::test {

inline std::vector<nlohmann::json> family_lines(const std::string& file) {
  std::ifstream in(TINYLOOP_SOURCE_DIR "/tests/golden/tokenizer/families/" + file);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// A family's tokenizer as data, and the strings that the data are views of.
class FamilyData {
 public:
  explicit FamilyData(const std::string& family) {
    const nlohmann::json json = family_lines(family + ".json").at(0);
    strings_ = json["tokens"].get<std::vector<std::string>>();
    merges_ = json.value("merges", std::vector<std::string>());
    data.model = json["model"];
    data.pre = json["pre"];
    data.tokens.assign(strings_.begin(), strings_.end());
    data.merges.assign(merges_.begin(), merges_.end());
    data.token_types = json["token_type"].get<std::vector<int32_t>>();
    data.scores = json.value("scores", std::vector<float>());
    data.bos = json["bos_token_id"].get<int32_t>();
    data.eos = json["eos_token_id"].get<int32_t>();
    if (json.contains("unknown_token_id")) data.unknown = json["unknown_token_id"].get<int32_t>();
    if (json.contains("add_space_prefix")) data.add_space_prefix = json["add_space_prefix"];
    data.add_bos = json["add_bos_token"].get<bool>();
  }
  FamilyData(const FamilyData&) = delete;
  FamilyData& operator=(const FamilyData&) = delete;

  TokenizerData data;

 private:
  std::vector<std::string> strings_, merges_;
};

struct FamilyCase {
  std::string text, decoded;
  std::vector<int32_t> ids, special;  // special tokens as plain text, and parsed
  std::vector<size_t> pieces;         // byte-level families
};

inline std::vector<FamilyCase> family_cases(const std::string& family) {
  const auto texts = family_lines("texts.jsonl");
  const auto lines = family_lines(family + ".ids.jsonl");
  std::vector<FamilyCase> cases;
  for (size_t i = 0; i < texts.size(); ++i) {
    FamilyCase& c = cases.emplace_back();
    c.text = c.decoded = texts[i].get<std::string>();
    const nlohmann::json& line = lines.at(i);
    c.ids = c.special = line[0].get<std::vector<int32_t>>();
    for (size_t part = 1; part < line.size(); ++part) {
      if (line[part].is_array()) {
        c.pieces = line[part].get<std::vector<size_t>>();
      } else {
        c.decoded = line[part].value("decoded", c.decoded);
        c.special = line[part].value("special", c.special);
      }
    }
  }
  return cases;
}

}  // namespace tinyloop::engine::test
