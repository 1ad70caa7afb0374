#include "actors/stream_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "actors/error.h"

namespace tinyloop::actors {
namespace {

StreamChunk::Summary summary(size_t tokens) {
  StreamChunk::Summary result;
  result.generated_tokens = tokens;
  return result;
}

TEST(TextPipe, TextLongerThanTheFirstBlock) {
  TextPipe pipe(4);
  std::string expected, read;
  for (int i = 0; i < 50; ++i) {
    const std::string text(size_t(i % 13), char('a' + i % 26));
    pipe.write(text);
    expected += text;
    if (i % 7 != 0) continue;
    read.reserve(pipe.written());
    pipe.read(pipe.written(), read);
    EXPECT_EQ(read, expected);
  }
  read.reserve(pipe.written());
  pipe.read(pipe.written(), read);
  EXPECT_EQ(read, expected);
}

TEST(StreamBuffer, OneReadTakesEverythingNew) {
  StreamBuffer buffer(4, std::nullopt);
  EXPECT_FALSE(buffer.has_more(0));
  buffer.push(7, "ab", nullptr);
  buffer.push(8, "", nullptr);
  EXPECT_TRUE(buffer.has_more(0));
  EXPECT_TRUE(buffer.has_more(1));
  EXPECT_FALSE(buffer.has_more(2));
  const auto first = buffer.read();
  EXPECT_EQ(first.chunk.tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(first.chunk.text, "ab");
  EXPECT_FALSE(first.chunk.summary);
  buffer.push(9, "c", nullptr);
  buffer.add_text("tail");
  buffer.finish({}, summary(3));
  const auto last = buffer.read();
  EXPECT_EQ(last.chunk.tokens, (std::vector<int32_t>{9}));
  EXPECT_EQ(last.chunk.text, "ctail");
  ASSERT_TRUE(last.chunk.summary);
  EXPECT_EQ(last.chunk.summary->generated_tokens, 3u);
  EXPECT_TRUE(buffer.read().error == errc::end_of_stream);
  EXPECT_TRUE(buffer.read().error == errc::end_of_stream);
}

TEST(StreamBuffer, AnErrorComesOnceAfterTheTokens) {
  StreamBuffer buffer(4, std::nullopt);
  buffer.push(7, "ab", nullptr);
  buffer.finish(make_error(errc::replica_failed, "x"), summary(1));
  const auto tokens = buffer.read();
  EXPECT_FALSE(tokens.error);
  EXPECT_EQ(tokens.chunk.tokens, (std::vector<int32_t>{7}));
  EXPECT_FALSE(tokens.chunk.summary);
  EXPECT_TRUE(buffer.read().error == errc::replica_failed);
  EXPECT_TRUE(buffer.read().error == errc::end_of_stream);
}

TEST(StreamBuffer, LogprobsTravelWithTheirTokens) {
  StreamBuffer buffer(3, 2);
  PositionLogprobs entry{{1, -0.5f}, {{1, -0.5f}, {2, -1.5f}}};
  buffer.push(1, "", &entry);
  entry.chosen.token = 2;
  buffer.push(2, "", &entry);
  const auto read = buffer.read();
  ASSERT_EQ(read.chunk.logprobs.size(), 2u);
  EXPECT_EQ(read.chunk.logprobs[1].chosen.token, 2);
  EXPECT_EQ(read.chunk.logprobs[1].top.size(), 2u);
}

TEST(StreamBuffer, ReaderAndWriterAtTheSameTime) {
  constexpr int kTokens = 20000;
  StreamBuffer buffer(kTokens, std::nullopt);
  std::thread writer([&] {
    for (int32_t i = 0; i < kTokens; ++i) buffer.push(i, std::to_string(i) + "/longer", nullptr);
    buffer.finish({}, summary(kTokens));
  });
  std::string text, expected;
  int32_t next = 0;
  for (bool ended = false; !ended;) {
    if (!buffer.has_more(buffer.taken())) {
      std::this_thread::yield();
      continue;
    }
    auto read = buffer.read();
    for (int32_t token : read.chunk.tokens) EXPECT_EQ(token, next++);
    text += read.chunk.text;
    ended = read.chunk.summary.has_value();
  }
  writer.join();
  for (int32_t i = 0; i < kTokens; ++i) expected += std::to_string(i) + "/longer";
  EXPECT_EQ(next, kTokens);
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace tinyloop::actors
