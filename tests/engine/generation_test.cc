#include "engine/generation.h"

#include <gtest/gtest.h>

#include "tests/engine/tokenizer_fixture.h"

namespace tinyloop::engine {
namespace {

class TextClient : public SequenceClient {
 public:
  void on_begin() noexcept override {}
  void on_token(int32_t, std::string_view released, const PositionLogprobs*) noexcept override {
    text += released;
  }
  void on_score(float) noexcept override {}
  void on_finished(FinishReason, std::string_view released) noexcept override { text += released; }
  void on_failed(const base::Error&) noexcept override {}

  std::string text;
};

// The text of `tokens`, generated one after the other behind `prompt`.
std::string generated_text(const Tokenizer& tokenizer, std::vector<int32_t> prompt,
                           const std::vector<int32_t>& tokens) {
  SequenceRequest request;
  request.tokens = std::move(prompt);
  request.config.max_tokens = static_cast<int32_t>(tokens.size());
  request.config.temperature = 0;
  TextClient client;
  Generation generation(request, &tokenizer, client);
  for (const int32_t token : tokens) generation.take({token, 0.0f}, {});
  client.on_finished(FinishReason::max_tokens, generation.remaining_text());
  return client.text;
}

// The space that a SentencePiece model puts before a text is no part of it; behind a prompt it is.
TEST(Generation, TextGoesOnWhereThePromptEnds) {
  const auto tokenizer = Tokenizer::create(test::FamilyData("llama").data).value();
  const std::vector<int32_t> bos = {*tokenizer.bos()}, once = tokenizer.encode("once upon 日本");
  ASSERT_EQ(tokenizer.token_bytes(once[0])[0], ' ');
  EXPECT_EQ(generated_text(tokenizer, bos, once), "once upon 日本");
  EXPECT_EQ(generated_text(tokenizer, tokenizer.encode("a"), once), " once upon 日本");
}

}  // namespace
}  // namespace tinyloop::engine
