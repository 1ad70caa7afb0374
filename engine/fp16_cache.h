// The FP16 copies of a model's matrices that the fast mode keeps: how much they may take, which
// matrices get one, and the copies themselves.
#pragma once

#include <cstddef>
#include <optional>

#include "base/error.h"
#include "engine/model_weights.h"
#include "tinyloop/options.h"

namespace tinyloop::engine {

// Names the bytes of copies where ModelOptions::fp16_cache_bytes does not.
inline constexpr const char* kFp16CacheVariable = "TINYLOOP_FP16_CACHE_BYTES";

// Bytes that the copies may take; nullopt: the loop block gets what it needs, all others nothing.
// Errors: invalid_argument, where the environment variable is asked and is no number of bytes.
base::Result<std::optional<size_t>> fp16_cache_limit(const ModelOptions& options);

// Gives copies to matrices as far as `limit` goes: first those of the loop block, which each token
// reads once an iteration, then prelude and coda. Matrices that the same rows meet (q, k and v;
// gate and up) get theirs together, one behind the other, or not at all. Those without a copy are
// multiplied as in mode f16; so are embedding and head, which meet few rows.
// Throws base::Failure(out_of_memory); `weights` then holds the copies that were made so far.
void add_fp16_copies(ModelWeights& weights, kernels::Backend& backend,
                     const std::optional<size_t>& limit);

}  // namespace tinyloop::engine
