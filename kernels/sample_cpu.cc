#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/row_scan.h"
#include "kernels/sample.h"
#include "kernels/sampling_math.h"

namespace tinyloop::kernels {

namespace {

using Row = std::span<const float>;

// ---- Adjustments --------------------------------------------------------------------------------

bool is_allowed(const SampleTerms& terms, size_t token) {
  return !terms.mask || (terms.mask[token / 32] >> token % 32 & 1) != 0;
}

float adjusted_logit(const SampleTerms& terms, size_t token, float logit) {
  if (logit == kLeastLogit || !is_allowed(terms, token)) return kLeastLogit;
  if (!terms.counts) return logit;
  return penalised(logit, terms.counts[token],
                   {terms.repetition_penalty, terms.presence_penalty, terms.frequency_penalty});
}

Row adjust(Row logits, const SampleTerms& terms, float* adjusted) {
  if (!terms.adjusts()) return logits;
  TINYLOOP_CHECK(adjusted != nullptr);
  for (size_t t = 0; t < logits.size(); ++t) adjusted[t] = adjusted_logit(terms, t, logits[t]);
  for (const LogitBias& bias : std::span(terms.biases, size_t(terms.bias_count))) {
    const auto t = size_t(bias.token);
    if (logits[t] == kLeastLogit) continue;
    adjusted[t] = adjusted_logit(terms, t, saturated(logits[t] + bias.bias));
  }
  return {adjusted, logits.size()};
}

// ---- Order --------------------------------------------------------------------------------------

struct Greatest {
  int32_t token = kNoToken;
  float logit = kLeastLogit;
};

// The first token of the order. kNoToken: a number is not usable, or none is finite.
Greatest greatest_of(Row row) {
  const float greatest = greatest_usable(row);
  if (!(greatest > kLeastLogit)) return {};
  return {int32_t(std::find(row.begin(), row.end(), greatest) - row.begin()), greatest};
}

// Tokens from a rank on, without the rank of each being computed.
class Beginning {
 public:
  explicit Beginning(uint64_t least)
      : value_(value_of_rank(least)), id_(uint32_t(token_of_rank(least))) {}
  // Without branches: which way they would go is a toss-up, token by token.
  bool has(float value, size_t token) const {
    return (value > value_) | ((value == value_) & (token <= id_));
  }

 private:
  float value_;
  uint32_t id_;
};
constexpr uint64_t kWholeRow = uint64_t{order_key(kLeastLogit)} << 32;
constexpr uint64_t kFiniteOnes = uint64_t{order_key(-std::numeric_limits<float>::max())} << 32;

// How a token counts towards a target: as one.
struct CountOne {
  static constexpr size_t kTokens = 512;  // at a time
  void measure(Row tokens, uint64_t* out) const { std::fill_n(out, tokens.size(), 1); }
  uint64_t of(float) const { return 1; }
};

// By its weight at a temperature.
struct Weigh {
  static constexpr size_t kTokens = 512;
  float greatest, temperature;

  void measure(Row tokens, uint64_t* out) const {
    std::array<float, kTokens> weights;
    exp_of_row(tokens, greatest, temperature, weights.data());
    for (size_t i = 0; i < tokens.size(); ++i) out[i] = in_units(weights[i]);
  }
  uint64_t of(float value) const { return weight_of((value - greatest) / temperature); }
};

// Sums of what the tokens measure, by some of the digits of their value's key.
struct DigitSums {
  std::array<uint64_t, 1 << 11> sums{};
  uint64_t total = 0;

  void add(uint32_t digit, uint64_t measure) {
    sums[digit] += measure;
    total += measure;
  }
  // The digit at which the target is reached, from the highest one on; takes those above off it.
  uint32_t reach(uint64_t& target) const {
    auto digit = uint32_t(sums.size() - 1);
    while (sums[digit] < target) target -= sums[digit--];
    return digit;
  }
};

// The rank of the last token of the shortest beginning of the order whose tokens measure
// target(what all measure) >= 1 together; of the tokens from rank `least` on. All of them measure
// less: `least`. Found digit by digit of the value, from sums over the tokens that share the digits
// so far.
template <class Measure, class Target>
uint64_t rank_at(Row row, uint64_t least, const Measure& measure, const Target& target_of) {
  const Beginning beginning(least);
  std::array<uint64_t, Measure::kTokens> measures;
  DigitSums first;
  for (size_t from = 0; from < row.size(); from += Measure::kTokens) {
    const Row tokens = row.subspan(from, std::min(Measure::kTokens, row.size() - from));
    measure.measure(tokens, measures.data());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!beginning.has(tokens[i], from + i)) continue;
      first.add(order_key(tokens[i]) >> 21, measures[i]);
    }
  }
  uint64_t target = target_of(first.total);
  if (target > first.total) return least;
  uint32_t known = first.reach(target), shift = 21;
  for (const uint32_t bits : {11u, 10u}) {
    const float low = value_of_key(known << shift);
    const float high = value_of_key(known << shift | ((1u << shift) - 1));
    shift -= bits;
    DigitSums sums;
    for (size_t t = 0; t < row.size(); ++t) {
      if (row[t] < low || row[t] > high || !beginning.has(row[t], t)) continue;
      sums.add(order_key(row[t]) >> shift & ((1u << bits) - 1), measure.of(row[t]));
    }
    known = known << bits | sums.reach(target);
  }
  // Of those that equal the last one, as many as it takes, by id.
  const float last = value_of_key(known);
  const uint64_t each = measure.of(last);
  for (size_t t = 0;; ++t) {
    if (row[t] != last) continue;
    if (target <= each) return rank_of(last, uint32_t(t));
    target -= each;
  }
}

// ---- Log-probabilities --------------------------------------------------------------------------

double log_sum(Row logits, float greatest) {
  const Weigh weigh{greatest, 1.0f};
  std::array<uint64_t, Weigh::kTokens> weights;
  uint64_t sum = 0;
  for (size_t from = 0; from < logits.size(); from += Weigh::kTokens) {
    const size_t count = std::min(Weigh::kTokens, logits.size() - from);
    weigh.measure(logits.subspan(from, count), weights.data());
    for (size_t i = 0; i < count; ++i) sum += weights[i];
  }
  return log_of_weights(sum);
}

void find_candidates(Row logits, const SampleTerms& terms, float greatest, double sum,
                     ScoredToken* candidates) {
  const auto wanted = std::min(uint64_t(std::max(terms.candidates, 0)), uint64_t{logits.size()});
  if (wanted == 0) return;
  const Beginning beginning(
      rank_at(logits, kWholeRow, CountOne(), [=](uint64_t) { return wanted; }));
  std::array<uint64_t, kMostCandidates> ranks;
  size_t found = 0;
  for (size_t t = 0; t < logits.size() && found < wanted; ++t) {
    if (beginning.has(logits[t], t)) ranks[found++] = rank_of(logits[t], uint32_t(t));
  }
  std::sort(ranks.begin(), ranks.begin() + ptrdiff_t(found), std::greater<>());
  for (size_t i = 0; i < found; ++i) {
    candidates[i] = {token_of_rank(ranks[i]), logprob_of(value_of_rank(ranks[i]), greatest, sum)};
  }
}

// ---- Draw ---------------------------------------------------------------------------------------

// The rank down to which top_k and top_p leave tokens.
uint64_t least_rank(Row row, const SampleTerms& terms, float greatest) {
  uint64_t least = kFiniteOnes;
  if (terms.top_k > 0 && size_t(terms.top_k) < row.size()) {
    least = rank_at(row, least, CountOne(), [&](uint64_t) { return uint64_t(terms.top_k); });
  }
  if (terms.top_p < 1.0f) {
    least = rank_at(row, least, Weigh{greatest, terms.temperature},
                    [&](uint64_t total) { return share_of(total, terms.top_p); });
  }
  return least;
}

// The token of the greatest noisy value so far.
class Draw {
 public:
  static constexpr size_t kTokens = 64;  // at a time

  explicit Draw(const SampleTerms& terms) : seed_(terms.seed), position_(terms.position) {}

  // Tokens from `first` on; −inf: one that is not to be drawn.
  void add(std::span<const float> scaled, size_t first) {
    // Noise is computed where it may make a difference alone.
    float most = kLeastLogit;
    for (const float value : scaled) most = std::max(most, value);
    if (most == kLeastLogit || most + kMostGumbel < value_) return;
    std::array<uint32_t, kTokens> words;
    noise_of_blocks(seed_, position_, uint32_t(first / kNoiseTokens),
                    (scaled.size() + kNoiseTokens - 1) / kNoiseTokens, words.data());
    for (size_t i = 0; i < scaled.size(); ++i) {
      if (scaled[i] == kLeastLogit || scaled[i] + gumbel_bound(words[i]) < value_) continue;
      const float value = scaled[i] + gumbel(words[i]);
      rank_ = std::max(rank_, rank_of(value, uint32_t(first + i)));
      value_ = std::max(value_, value);
    }
  }
  int32_t token() const { return token_of_rank(rank_); }

 private:
  uint64_t seed_, position_, rank_ = 0;
  float value_ = kLeastLogit;
};

int32_t draw(Row row, const SampleTerms& terms, float greatest) {
  const Beginning kept(least_rank(row, terms, greatest));
  const float least_scaled = terms.min_p > 0.0f ? least_scaled_of(terms.min_p) : kLeastLogit;
  Draw draw(terms);
  std::array<float, Draw::kTokens> scaled;
  for (size_t first = 0; first < row.size(); first += Draw::kTokens) {
    const Row tokens = row.subspan(first, std::min(Draw::kTokens, row.size() - first));
    scale_row(tokens, greatest, terms.temperature, scaled.data());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool from_rank = kept.has(tokens[i], first + i);
      const bool likely = !(scaled[i] < least_scaled);
      if (!(from_rank & likely)) scaled[i] = kLeastLogit;
    }
    draw.add({scaled.data(), tokens.size()}, first);
  }
  return draw.token();
}

}  // namespace

ScoredToken sample_row(std::span<const float> logits, const SampleTerms& terms, float* adjusted,
                       ScoredToken* candidates) {
  const Greatest raw = greatest_of(logits);
  if (raw.token == kNoToken) return {kNoToken, 0.0f};
  double sum = 0;
  if (terms.wants_logprobs()) {
    sum = log_sum(logits, raw.logit);
    find_candidates(logits, terms, raw.logit, sum, candidates);
  }
  ScoredToken chosen{terms.target, 0.0f};
  if (terms.target == kNoToken) {
    const Row row = adjust(logits, terms, adjusted);
    const Greatest first = terms.adjusts() ? greatest_of(row) : raw;
    if (first.token == kNoToken) return {kAllMasked, 0.0f};
    chosen.token = terms.temperature > 0.0f ? draw(row, terms, first.logit) : first.token;
    if (terms.counts) ++terms.counts[chosen.token];
  }
  if (terms.wants_logprobs()) {
    chosen.logprob = logprob_of(logits[size_t(chosen.token)], raw.logit, sum);
  }
  return chosen;
}

void sample_cpu(CpuContext& cpu, const SampleArgs& args) {
  cpu.for_rows(args.rows, args.vocab, [&](int32_t row) {
    const size_t first = size_t(row) * size_t(args.vocab);
    args.chosen[row] = sample_row({args.logits + first, size_t(args.vocab)}, args.terms[row],
                                  args.adjusted ? args.adjusted + first : nullptr,
                                  args.candidates + size_t(row) * kMostCandidates);
  });
}

}  // namespace tinyloop::kernels
