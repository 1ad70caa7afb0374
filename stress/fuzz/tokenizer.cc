// Any bytes through the shipped model's tokenizer and one of each family. The first byte picks the
// tokenizer and the options; the rest is encoded as a text, then taken as token ids and decoded.
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/text_decoder.h"
#include "engine/tokenizer_from_gguf.h"
#include "stress/fuzz/target.h"
#include "tests/engine/tokenizer_fixture.h"

namespace tinyloop::engine {
namespace {

struct Candidate {
  Tokenizer tokenizer;
  bool exact;  // decode(encode(text)) is the text
};

Tokenizer shipped_tokenizer() {
  const auto file =
      GgufFile::open(TINYLOOP_SOURCE_DIR "/models/tinyloop-tales-16m-q4_1.gguf").value();
  return load_tokenizer(file).value().value();
}

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> list;
    list.push_back({shipped_tokenizer(), true});
    for (const char* family : {"gpt-2", "llama-bpe", "smollm", "llama", "llama-no-prefix"}) {
      list.push_back({Tokenizer::create(test::FamilyData(family).data).value(), true});
    }
    // One composes characters, one has no token for some of them.
    for (const char* family : {"qwen2", "llama-no-bytes"}) {
      list.push_back({Tokenizer::create(test::FamilyData(family).data).value(), false});
    }
    return list;
  }();
  return all;
}

void check_encode(const Candidate& candidate, std::string_view text, bool parse_special) {
  const Tokenizer& tokenizer = candidate.tokenizer;
  const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_special = parse_special});
  TINYLOOP_CHECK(ids.size() <= 2 * text.size() + 1);
  for (const int32_t id : ids) TINYLOOP_CHECK(id >= 0 && id < tokenizer.vocab_size());
  const bool has_space_mark = text.find("\xe2\x96\x81") != std::string_view::npos;
  if (candidate.exact && !has_space_mark) {
    TINYLOOP_CHECK(tokenizer.decode(ids, {.show_special = true}) == text);
  }
}

// Token by token, what comes out is whole characters; in all it is the sanitised whole.
void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool show_special) {
  const DecodeOptions options{.show_special = show_special};
  TextDecoder decoder;
  std::string streamed;
  bool at_start = true;
  for (const int32_t id : ids) {
    const std::string_view bytes = tokenizer.next_bytes(id, at_start, options);
    TINYLOOP_CHECK(bytes.size() <= tokenizer.max_token_bytes());
    const size_t before = streamed.size();
    decoder.push(bytes, streamed);
    TINYLOOP_CHECK(streamed.size() - before <= TextDecoder::max_output(bytes.size()));
    TINYLOOP_CHECK(is_valid_utf8(std::string_view(streamed).substr(before)));
  }
  decoder.flush(streamed);
  TINYLOOP_CHECK(streamed == sanitise_utf8(tokenizer.decode(ids, options)));
}

// Folded into the vocabulary's range and a little beyond, or raw.
std::vector<int32_t> ids_of(std::string_view bytes, const Tokenizer& tokenizer, bool raw) {
  std::vector<int32_t> ids;
  for (; bytes.size() >= sizeof(int32_t); bytes.remove_prefix(sizeof(int32_t))) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    if (!raw) number %= uint32_t(tokenizer.vocab_size()) + 8;
    ids.push_back(static_cast<int32_t>(number));
  }
  return ids;
}

}  // namespace
}  // namespace tinyloop::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tinyloop::engine;
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Candidate& candidate = candidates()[choice / 8 % candidates().size()];
  check_encode(candidate, rest, (choice & 1) != 0);
  check_stream(candidate.tokenizer, ids_of(rest, candidate.tokenizer, (choice & 2) != 0),
               (choice & 4) != 0);
  return 0;
}
