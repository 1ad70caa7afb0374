#include "tests/support/tiny_tokenizer.h"

#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tinyloop::testing {

namespace {

// The visible character that stands for a byte in `gpt2` vocabularies: printable Latin-1 bytes
// stand for themselves, the others take the code points from 256 on, in order.
std::string byte_character(int byte) {
  const auto printable = [](int b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

using Merge = std::pair<std::string, std::string>;

// Some pairs that English text has, longer tokens among them, then all pairs of small letters.
std::vector<Merge> merge_list() {
  const std::string space = byte_character(' ');
  std::vector<Merge> merges = {
      {"h", "e"},         {space, "t"}, {space, "a"}, {"i", "n"}, {space + "t", "he"},
      {"e", "r"},         {space, "s"}, {"n", "d"},   {"r", "e"}, {space + "a", "nd"},
      {"o", "n"},         {space, "w"}, {"in", "g"},  {"o", "u"}, {space, "o"},
      {space + "o", "f"}, {"e", "d"},   {"l", "l"}};
  std::set<std::string> made;
  for (const auto& [left, right] : merges) made.insert(left + right);
  for (char left = 'a'; left <= 'z'; ++left) {
    for (char right = 'a'; right <= 'z'; ++right) {
      if (made.insert({left, right}).second) merges.push_back({{left}, {right}});
    }
  }
  return merges;
}

}  // namespace

void write_tiny_tokenizer(int32_t vocab, GgufWriter& writer) {
  constexpr int32_t kBytes = 256, kNormal = 1, kControl = 3;
  const std::vector<Merge> all = merge_list();
  const int32_t wanted = vocab - kBytes - 1;
  if (wanted < 0 || static_cast<size_t>(wanted) > all.size()) {
    throw std::invalid_argument("write_tiny_tokenizer: vocab " + std::to_string(vocab));
  }
  std::vector<std::string> tokens = {"<|endoftext|>"}, merges;
  for (int byte = 0; byte < kBytes; ++byte) tokens.push_back(byte_character(byte));
  for (size_t i = 0; i < static_cast<size_t>(wanted); ++i) {
    tokens.push_back(all[i].first + all[i].second);
    merges.push_back(all[i].first + " " + all[i].second);
  }
  std::vector<int32_t> types(tokens.size(), kNormal);
  types[0] = kControl;
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "gpt-2");
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.integers("tokenizer.ggml.token_type", types);
  writer.strings("tokenizer.ggml.merges", merges);
  writer.u32("tokenizer.ggml.bos_token_id", 0);
  writer.u32("tokenizer.ggml.eos_token_id", 0);
  writer.boolean("tokenizer.ggml.add_bos_token", false);
}

}  // namespace tinyloop::testing
