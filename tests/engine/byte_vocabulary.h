// A small byte-level tokenizer for tests: ids 0 .. 255 are the bytes, then what the test adds.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "engine/byte_level.h"
#include "engine/tokenizer_data.h"

namespace tinyloop::engine::test {

class ByteVocabulary {
 public:
  ByteVocabulary() {
    data.model = "gpt2";
    data.pre = "gpt-2";
    for (int byte = 0; byte < 256; ++byte) {
      add(encode_byte_level(std::string(1, static_cast<char>(byte))), TokenType::normal);
    }
  }
  ByteVocabulary(const ByteVocabulary&) = delete;  // data holds views into strings_
  ByteVocabulary& operator=(const ByteVocabulary&) = delete;

  int32_t add(std::string text, TokenType type) {
    data.tokens.push_back(strings_.emplace_back(std::move(text)));
    data.token_types.push_back(static_cast<int32_t>(type));
    return static_cast<int32_t>(data.tokens.size()) - 1;
  }

  // Adds the merge and, if it is new, its result. Parts in the file's spelling.
  int32_t merge(const std::string& left, const std::string& right) {
    data.merges.push_back(strings_.emplace_back(left + " " + right));
    for (size_t id = 0; id < data.tokens.size(); ++id) {
      if (data.tokens[id] == left + right) return static_cast<int32_t>(id);
    }
    return add(left + right, TokenType::normal);
  }

  TokenizerData data;

 private:
  std::deque<std::string> strings_;
};

}  // namespace tinyloop::engine::test
