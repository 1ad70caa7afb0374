#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/rank_search.h"
#include "kernels/cpu/row_scan.h"
#include "kernels/cpu/shortlist.h"
#include "kernels/sample.h"
#include "kernels/sampling_math.h"

namespace tinyloop::kernels {

namespace {

using Row = std::span<const float>;

// ---- Adjustments --------------------------------------------------------------------------------

float penalised_logit(const SampleTerms& terms, size_t token, float logit) {
  if (!terms.counts || logit == kLeastLogit) return logit;
  return penalised(logit, terms.counts[token],
                   {terms.repetition_penalty, terms.presence_penalty, terms.frequency_penalty});
}

void mask_row(const SampleTerms& terms, std::span<float> row) {
  for (size_t word = 0; word < mask_words(int32_t(row.size())); ++word) {
    const uint32_t allowed = terms.mask[word];
    if (allowed == ~0u) continue;
    for (size_t t = word * 32; t < std::min(word * 32 + 32, row.size()); ++t) {
      if ((allowed >> t % 32 & 1) == 0) row[t] = kLeastLogit;
    }
  }
}

// Most tokens stay as they are: only the others are looked at one by one.
Row adjust(Row logits, const SampleTerms& terms, float* adjusted) {
  if (!terms.adjusts()) return logits;
  TINYLOOP_CHECK(adjusted != nullptr);
  const std::span row(adjusted, logits.size());
  std::copy(logits.begin(), logits.end(), row.begin());
  if (terms.mask) mask_row(terms, row);
  if (terms.counts) {
    for (size_t t = 0; t < row.size(); ++t) {
      if (terms.counts[t] != 0) row[t] = penalised_logit(terms, t, row[t]);
    }
  }
  for (const LogitBias& bias : std::span(terms.biases, size_t(terms.bias_count))) {
    const auto t = size_t(bias.token);
    if (row[t] == kLeastLogit) continue;  // as it came, or by the mask
    row[t] = penalised_logit(terms, t, saturated(logits[t] + bias.bias));
  }
  return row;
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
  const size_t wanted = std::min(size_t(std::max(terms.candidates, 0)), logits.size());
  const Shortlist best(logits, wanted);
  for (size_t i = 0; i < wanted; ++i) {
    const uint64_t rank = best.ranks()[i];
    candidates[i] = {token_of_rank(rank), logprob_of(value_of_rank(rank), greatest, sum)};
  }
}

// ---- Draw ---------------------------------------------------------------------------------------

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
      take(scaled[i] + gumbel(words[i]), uint32_t(first + i));
    }
  }
  // One token.
  void add(float scaled, uint32_t token) {
    const auto words = noise_words(seed_, position_, token / kNoiseTokens);
    take(scaled + gumbel(words[token % kNoiseTokens]), token);
  }
  int32_t token() const { return token_of_rank(rank_); }

 private:
  void take(float value, uint32_t token) {
    rank_ = std::max(rank_, rank_of(value, token));
    value_ = std::max(value_, value);
  }

  uint64_t seed_, position_, rank_ = 0;
  float value_ = kLeastLogit;
};

// From the tokens of rank `least` on.
int32_t draw_from_row(Row row, const SampleTerms& terms, float greatest, uint64_t least) {
  const Beginning kept(least);
  const float least_scaled = least_scaled_of(terms.min_p);
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

// From few tokens, the best first.
int32_t draw_from_few(std::span<const uint64_t> ranks, const SampleTerms& terms, float greatest) {
  const auto scaled = [&](uint64_t rank) {
    return (value_of_rank(rank) - greatest) / terms.temperature;
  };
  size_t kept = ranks.size();
  if (terms.top_p < 1.0f) {
    uint64_t total = 0, running = 0;
    for (const uint64_t rank : ranks) total += weight_of(scaled(rank));
    const uint64_t target = share_of(total, terms.top_p);
    for (kept = 0; running < target; ++kept) running += weight_of(scaled(ranks[kept]));
  }
  const float least_scaled = least_scaled_of(terms.min_p);
  Draw draw(terms);
  for (const uint64_t rank : ranks.first(kept)) {
    if (scaled(rank) < least_scaled) break;
    draw.add(scaled(rank), uint32_t(token_of_rank(rank)));
  }
  return draw.token();
}

int32_t draw(Row row, const SampleTerms& terms, float greatest) {
  const auto top_k = size_t(terms.top_k);
  uint64_t least = kFiniteOnes;
  if (top_k > 0 && top_k <= std::min(Shortlist::kMost, row.size())) {
    return draw_from_few(Shortlist(row, top_k).finite_ranks(), terms, greatest);
  }
  if (top_k > 0 && top_k < row.size()) {
    least = rank_at(row, least, CountOne(), [&](uint64_t) { return uint64_t{top_k}; });
  }
  if (terms.top_p < 1.0f) {
    least = rank_at(row, least, Weigh{greatest, terms.temperature},
                    [&](uint64_t total) { return share_of(total, terms.top_p); });
  }
  return draw_from_row(row, terms, greatest, least);
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
