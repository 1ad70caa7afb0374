#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/rank_search.cuh"
#include "kernels/cuda/row_blocks.cuh"
#include "kernels/sample.h"

namespace tinyloop::kernels {

namespace {

struct SampleParams {
  const float* logits;
  const SampleTerms* terms;
  float* adjusted;
  ScoredToken* chosen;
  ScoredToken* candidates;
  int32_t vocab;
  int32_t part;  // tokens of one block, a multiple of kNoiseTokens
};

struct SampleMemory {
  RowBlocksMemory blocks;
  RankSearchMemory search;
  uint64_t ranks[kMostCandidates];  // of the first block: candidates, in no order
  uint32_t found;
};

// In place of a rank: above all others, below all others.
constexpr uint64_t kUnusable = ~uint64_t{0};
constexpr uint64_t kNone = 0;

// Past the first-level cache, as all that changes from step to step.
__device__ SampleTerms load_terms(const SampleTerms* from) {
  static_assert(sizeof(SampleTerms) % sizeof(uint2) == 0 && alignof(SampleTerms) == alignof(uint2));
  SampleTerms terms;
  auto* to = reinterpret_cast<uint2*>(&terms);
#pragma unroll
  for (size_t i = 0; i < sizeof(SampleTerms) / sizeof(uint2); ++i) {
    to[i] = __ldcg(reinterpret_cast<const uint2*>(from) + i);
  }
  return terms;
}
__device__ LogitBias load_bias(const LogitBias* from) {
  const auto* words = reinterpret_cast<const int*>(from);
  return {__ldcg(words), __int_as_float(__ldcg(words + 1))};
}

// One row, by the blocks of a cluster. Each looks after the tokens of its part.
class RowSampler {
 public:
  __device__ RowSampler(const SampleParams& args, SampleMemory& memory)
      : args_(args),
        memory_(memory),
        terms_(load_terms(args.terms + blockIdx.y)),
        blocks_(memory.blocks),
        search_(memory.search, blocks_) {
    const int first = blocks_.rank() * args.part;
    const int64_t start = int64_t{blockIdx.y} * args.vocab;
    raw_ = {args.logits + start, min(first, args.vocab), min(first + args.part, args.vocab)};
    row_ = raw_;
    if (terms_.adjusts()) row_.row = args.adjusted + start;
  }

  __device__ void run() {
    const uint64_t first = greatest_of(raw_);
    ScoredToken chosen{first == kUnusable || first == kNone ? kNoToken : terms_.target, 0.0f};
    if (first != kUnusable && first != kNone) choose(first, chosen);
    if (leads()) args_.chosen[blockIdx.y] = chosen;
    blocks_.sync();  // the others may still read this block's memory
  }

 private:
  __device__ bool leads() const { return blocks_.rank() == 0 && threadIdx.x == 0; }

  // The first rank of the order, kUnusable, or, where all is −inf, kNone.
  __device__ uint64_t greatest_of(const RowPart& part) {
    float greatest = -INFINITY;
    int token = 0;
    bool usable = true;
    part.for_tokens([&](int t, float x) {
      usable &= x < INFINITY;  // false for NaN, too
      if (!(x > greatest)) return;
      greatest = x;
      token = t;
    });
    const uint64_t rank = greatest > -INFINITY ? rank_of(greatest, uint32_t(token)) : kNone;
    return blocks_.greatest(usable ? rank : kUnusable);
  }

  __device__ void choose(uint64_t raw_first, ScoredToken& chosen) {
    const float raw_greatest = value_of_rank(raw_first);
    double log_sum = 0.0;
    if (terms_.wants_logprobs()) {
      log_sum = log_of_weights(weigh(raw_greatest));
      if (terms_.candidates > 0) find_candidates(raw_greatest, log_sum);
    }
    if (terms_.target == kNoToken) {
      chosen.token = choose_token(raw_first);
      if (chosen.token == kAllMasked) return;
      if (terms_.counts && leads()) {
        uint32_t* count = terms_.counts + chosen.token;
        __stcg(count, __ldcg(count) + 1);
      }
    }
    if (terms_.wants_logprobs()) {
      chosen.logprob = logprob_of(__ldcg(raw_.row + chosen.token), raw_greatest, log_sum);
    }
  }

  __device__ int32_t choose_token(uint64_t raw_first) {
    if (terms_.adjusts()) adjust();
    const uint64_t first = terms_.adjusts() ? greatest_of(row_) : raw_first;
    if (first == kNone) return kAllMasked;
    return token_of_rank(terms_.temperature > 0.0f ? draw(value_of_rank(first)) : first);
  }

  // ---- Log-probabilities ----

  __device__ uint64_t weigh(float greatest) {
    uint64_t sum = 0;
    raw_.for_tokens([&](int, float x) { sum += weight_of(x - greatest); });
    return blocks_.sum(sum);
  }

  __device__ void find_candidates(float greatest, double log_sum) {
    const int wanted = min(terms_.candidates, args_.vocab);
    const uint64_t least =
        search_.rank_at(raw_, 0, count_one, [&](uint64_t) { return uint64_t(wanted); });
    SampleMemory& first = *blocks_.of_block(&memory_, 0);
    if (leads()) memory_.found = 0;
    blocks_.sync();
    raw_.for_tokens([&](int t, float x) {
      const uint64_t rank = rank_of(x, uint32_t(t));
      if (rank >= least) first.ranks[atomicAdd(&first.found, 1u)] = rank;
    });
    blocks_.sync();
    if (blocks_.rank() != 0 || int(threadIdx.x) >= wanted) return;
    const uint64_t rank = memory_.ranks[threadIdx.x];
    int place = 0;
    for (int i = 0; i < wanted; ++i) place += memory_.ranks[i] > rank ? 1 : 0;
    args_.candidates[int64_t{blockIdx.y} * kMostCandidates + place] = {
        token_of_rank(rank), logprob_of(value_of_rank(rank), greatest, log_sum)};
  }

  // ---- Adjustments ----

  __device__ float adjusted(int t, float logit) const {
    const bool allowed = !terms_.mask || (__ldcg(terms_.mask + t / 32) >> t % 32 & 1) != 0;
    if (logit == -INFINITY || !allowed) return -INFINITY;
    if (!terms_.counts) return logit;
    return penalised(
        logit, __ldcg(terms_.counts + t),
        {terms_.repetition_penalty, terms_.presence_penalty, terms_.frequency_penalty});
  }

  __device__ void adjust() {
    float* to = const_cast<float*>(row_.row);
    raw_.for_tokens([&](int t, float x) { to[t] = adjusted(t, x); });
    if (terms_.bias_count > 0) {
      __syncthreads();
      for (int i = int(threadIdx.x); i < terms_.bias_count; i += kRowThreads) {
        const LogitBias bias = load_bias(terms_.biases + i);
        if (bias.token < raw_.first || bias.token >= raw_.end) continue;
        const float logit = __ldcg(raw_.row + bias.token);
        if (logit > -INFINITY) {
          to[bias.token] = adjusted(bias.token, saturated(logit + bias.bias));
        }
      }
    }
    __syncthreads();
  }

  // ---- Draw ----

  __device__ static uint64_t count_one(float) { return 1; }

  __device__ uint64_t least_rank(float greatest) {
    uint64_t least = kFiniteOnes;
    if (terms_.top_k > 0 && terms_.top_k < args_.vocab) {
      least =
          search_.rank_at(row_, least, count_one, [&](uint64_t) { return uint64_t(terms_.top_k); });
    }
    if (terms_.top_p < 1.0f) {
      const auto weight = [&](float x) { return weight_of((x - greatest) / terms_.temperature); };
      least = search_.rank_at(row_, least, weight,
                              [&](uint64_t total) { return share_of(total, terms_.top_p); });
    }
    return least;
  }

  // The rank of the greatest noisy value.
  __device__ uint64_t draw(float greatest) {
    const uint64_t least = least_rank(greatest);
    const float least_scaled = least_scaled_of(terms_.min_p);
    uint64_t best = kNone;
    float best_value = -INFINITY;
    const bool aligned = reinterpret_cast<uintptr_t>(row_.row) % sizeof(float4) == 0;
#pragma unroll 2
    for (int first = row_.first + int(threadIdx.x) * int(kNoiseTokens); first < row_.end;
         first += kRowThreads * int(kNoiseTokens)) {
      float scaled[kNoiseTokens];
      row_.load(first, aligned, scaled);
      float most = -INFINITY;
#pragma unroll
      for (int i = 0; i < int(kNoiseTokens); ++i) {
        const uint64_t rank = rank_of(scaled[i], uint32_t(first + i));
        scaled[i] = (scaled[i] - greatest) / terms_.temperature;
        if (rank < least || scaled[i] < least_scaled) scaled[i] = -INFINITY;
        most = fmaxf(most, scaled[i]);
      }
      // Noise is computed where it may make a difference alone.
      if (most == -INFINITY || most + kMostGumbel < best_value) continue;
      const auto words = noise_words(terms_.seed, terms_.position, uint32_t(first) / kNoiseTokens);
#pragma unroll
      for (int i = 0; i < int(kNoiseTokens); ++i) {
        if (scaled[i] == -INFINITY || scaled[i] + gumbel_bound(words[i]) < best_value) continue;
        const float value = scaled[i] + gumbel(words[i]);
        best = max(best, rank_of(value, uint32_t(first + i)));
        best_value = fmaxf(best_value, value);
      }
    }
    return blocks_.greatest(best);
  }

  const SampleParams& args_;
  SampleMemory& memory_;
  const SampleTerms terms_;
  RowBlocks blocks_;
  RankSearch search_;
  RowPart raw_, row_;
};

__global__ void __launch_bounds__(kRowThreads, 1) sample_kernel(const SampleParams args) {
  extern __shared__ __align__(16) std::byte memory[];
  wait_for_previous();
  release_next();
  RowSampler(args, *reinterpret_cast<SampleMemory*>(memory)).run();
}

// A row's blocks: as many as the device runs at once, since few rows are a matter of latency. Some
// of its multiprocessors have no place in a large cluster.
int32_t blocks_of_row(const CudaContext& cuda, int32_t rows) {
  if (!cuda.has_warp_groups()) return 1;
  int32_t blocks = kMostRowBlocks;
  const auto fit = [&] { return blocks > 2 ? cuda.sm_count() * 15 / 16 : cuda.sm_count(); };
  while (blocks > 1 && blocks * rows > fit()) blocks /= 2;
  return blocks;
}

}  // namespace

void sample_cuda(CudaContext& cuda, const SampleArgs& args) {
  if (args.rows == 0) return;
  TINYLOOP_CHECK(args.vocab >= 1 && args.vocab <= kMostVocab);
  const int32_t blocks = blocks_of_row(cuda, args.rows);
  auto params = argument_of<SampleParams>();
  params.logits = args.logits;
  params.terms = args.terms;
  params.adjusted = args.adjusted;
  params.chosen = args.chosen;
  params.candidates = args.candidates;
  params.vocab = args.vocab;
  const int32_t most = (args.vocab + blocks - 1) / blocks;
  params.part = (most + int32_t(kNoiseTokens) - 1) / int32_t(kNoiseTokens) * int32_t(kNoiseTokens);
  cuda.launch(sample_kernel,
              {{unsigned(blocks), unsigned(args.rows)},
               kRowThreads,
               uint32_t(sizeof(SampleMemory)),
               uint32_t(blocks)},
              params);
}

}  // namespace tinyloop::kernels
