#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "engine/text_decoder.h"
#include "engine/utf8.h"

namespace tinyloop::engine {
namespace {

struct Piece {
  int32_t token;
  std::string text;
};

struct Outcome {
  std::vector<std::string> given;  // after each token, then at the end
  bool stopped = false;
  size_t tokens = 0;  // consumed, the last of the stop included

  bool operator==(const Outcome&) const = default;
  std::string text() const {
    std::string all;
    for (const auto& part : given) all += part;
    return all;
  }
};

Outcome run(const std::vector<StopSequence>& stops, const std::vector<Piece>& pieces,
            const std::string& tail = "") {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const Piece& piece : pieces) {
    const auto step = matcher.push(piece.token, piece.text);
    outcome.given.emplace_back(step.text);
    outcome.stopped = step.stopped;
    ++outcome.tokens;
    if (step.stopped) return outcome;
  }
  const auto step = matcher.finish(tail);
  outcome.given.emplace_back(step.text);
  outcome.stopped = step.stopped;
  return outcome;
}

using Parts = std::vector<std::string>;

TEST(StopMatcher, WithoutStopsEverythingGoesOutAtOnce) {
  EXPECT_EQ(run({}, {{1, "a"}, {2, ""}, {3, "bc"}}, "d"),
            (Outcome{{"a", "", "bc", "d"}, false, 3}));
}

TEST(StopMatcher, AStopTextAcrossTokens) {
  EXPECT_EQ(run({"END"}, {{1, "xE"}, {2, "N"}, {3, "Dy"}, {4, "z"}}),
            (Outcome{{"x", "", ""}, true, 3}));
}

TEST(StopMatcher, HeldTextComesOutWhenItCannotMatchAnyMore) {
  EXPECT_EQ(run({"END"}, {{1, "aEN"}, {2, "E"}, {3, "x"}, {4, "EN"}}),
            (Outcome{{"a", "EN", "Ex", "", "EN"}, false, 4}));
}

TEST(StopMatcher, StopsThatOverlapThemselves) {
  EXPECT_EQ(run({"aab"}, {{1, "a"}, {2, "a"}, {3, "a"}, {4, "a"}, {5, "b"}}),
            (Outcome{{"", "", "a", "a", ""}, true, 5}));
}

TEST(StopMatcher, TheEarliestBeginningWinsWithinOneToken) {
  EXPECT_EQ(run({"bc", "abcd"}, {{1, "xabcde"}}), (Outcome{{"x"}, true, 1}));
  EXPECT_EQ(run({"bc", "abcd"}, {{1, "xabc"}, {2, "d"}}), (Outcome{{"xa"}, true, 1}));
}

TEST(StopMatcher, TokensStopAndTheirTextIsDropped) {
  const StopSequence stop(std::vector<int32_t>{7, 8});
  EXPECT_EQ(run({stop}, {{1, "a"}, {7, "b"}, {7, "c"}, {8, "d"}, {9, "e"}}),
            (Outcome{{"a", "", "b", ""}, true, 4}));
  EXPECT_EQ(run({stop}, {{7, "b"}, {9, "c"}}), (Outcome{{"", "bc", ""}, false, 2}));
}

TEST(StopMatcher, WithoutATokenizerTokensAloneStop) {
  const StopSequence stop(std::vector<int32_t>{-5, 8});
  EXPECT_EQ(run({stop}, {{-5, ""}, {-5, ""}, {8, ""}}), (Outcome{{"", "", ""}, true, 3}));
}

TEST(StopMatcher, BothKindsAtOnceTheEarlierTextWins) {
  const StopSequence tokens(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(run({tokens, "cd"}, {{1, "ab"}, {2, "c"}, {3, "d"}}), (Outcome{{"", "", ""}, true, 3}));
  EXPECT_EQ(run({tokens, "zabcd"}, {{0, "yz"}, {1, "ab"}, {2, "c"}, {3, "d"}}),
            (Outcome{{"y", "", "", ""}, true, 4}));
}

TEST(StopMatcher, TheTailMayCompleteAStop) {
  EXPECT_EQ(run({"a\uFFFD"}, {{1, "xa"}}, "\uFFFD"), (Outcome{{"x", ""}, true, 1}));
}

TEST(StopMatcher, OnceStoppedNothingComesOut) {
  StopMatcher matcher(std::vector<StopSequence>{"x"});
  EXPECT_TRUE(matcher.push(1, "x").stopped);
  EXPECT_TRUE(matcher.push(2, "abc").stopped);
  EXPECT_EQ(matcher.push(2, "abc").text, "");
  EXPECT_EQ(matcher.finish("d").text, "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, ATextThatIsNotUtf8IsIgnored) {
  EXPECT_EQ(run({"\xA9"}, {{1, "\u00E9\u00A9"}}), (Outcome{{"\u00E9\u00A9", ""}, false, 1}));
}

// After each token, by the definition: is a stop complete, and which suffix may become one?
class NaiveMatcher {
 public:
  explicit NaiveMatcher(const std::vector<StopSequence>& stops) : stops_(stops) {}

  Outcome run(const std::vector<Piece>& pieces, const std::string& tail) {
    for (const Piece& piece : pieces) {
      begins_.push_back(text_.size());
      tokens_.push_back(piece.token);
      text_ += piece.text;
      ++outcome_.tokens;
      if (stops_at(true)) return outcome_;
      give(held_from());
    }
    text_ += tail;
    if (!stops_at(false)) give(text_.size());
    return outcome_;
  }

 private:
  bool stops_at(bool new_token) {
    size_t begin = std::string::npos;
    for (const auto& stop : stops_) {
      if (!stop.text.empty()) begin = std::min(begin, text_.find(stop.text));
      const size_t n = stop.tokens.size();
      if (new_token && n > 0 && ends_with(stop.tokens, n)) {
        begin = std::min(begin, begins_[tokens_.size() - n]);
      }
    }
    if (begin == std::string::npos) return false;
    outcome_.stopped = true;
    give(begin);
    return true;
  }

  size_t held_from() const {
    size_t from = text_.size();
    for (const auto& stop : stops_) {
      for (size_t n = 1; n < stop.text.size() && n <= text_.size(); ++n) {
        if (text_.ends_with(stop.text.substr(0, n))) from = std::min(from, text_.size() - n);
      }
      for (size_t n = 1; n < stop.tokens.size(); ++n) {
        if (ends_with(stop.tokens, n)) from = std::min(from, begins_[tokens_.size() - n]);
      }
    }
    return from;
  }

  bool ends_with(const std::vector<int32_t>& sequence, size_t n) const {
    return n <= tokens_.size() && std::equal(tokens_.end() - static_cast<std::ptrdiff_t>(n),
                                             tokens_.end(), sequence.begin());
  }

  void give(size_t end) {
    outcome_.given.push_back(text_.substr(given_, end - given_));
    given_ = end;
  }

  std::vector<StopSequence> stops_;
  std::string text_;
  std::vector<int32_t> tokens_;
  std::vector<size_t> begins_;
  size_t given_ = 0;
  Outcome outcome_;
};

std::string random_text(std::mt19937& random, size_t longest) {
  static const std::string letters[] = {"a", "b", "\u00E9", "\u20AC"};
  std::string text;
  for (size_t n = random() % (longest + 1); n > 0; --n) text += letters[random() % 4];
  return text;
}

TEST(StopMatcher, EqualsTheDefinitionOnRandomStreams) {
  std::mt19937 random(6);
  size_t stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<StopSequence> stops;
    for (unsigned n = random() % 5; n > 0; --n) {
      if (random() % 3) {
        if (auto text = random_text(random, 5); !text.empty()) stops.emplace_back(text);
      } else {
        std::vector<int32_t> tokens(1 + random() % 4);
        for (auto& token : tokens) token = static_cast<int32_t>(random() % 3);
        stops.emplace_back(tokens);
      }
    }
    std::vector<Piece> pieces(random() % 25);
    for (auto& piece : pieces) {
      piece = {static_cast<int32_t>(random() % 4), random_text(random, 3)};
    }
    const std::string tail = random() % 2 ? random_text(random, 1) : "";
    const Outcome outcome = run(stops, pieces, tail);
    ASSERT_EQ(outcome, NaiveMatcher(stops).run(pieces, tail)) << "round " << round;
    for (const auto& part : outcome.given) ASSERT_TRUE(is_valid_utf8(part));
    stopped += outcome.stopped;
  }
  EXPECT_GT(stopped, 2000u);
  EXPECT_LT(stopped, 18000u);
}

}  // namespace
}  // namespace tinyloop::engine
