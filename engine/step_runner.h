// Carries out a plan: the one forward path of the engine. Prefill, decode, scoring, chunks and
// batches are all plans over it, and so give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/buffer_pool.h"
#include "engine/head_sink.h"
#include "engine/kv_cache.h"
#include "engine/model_spec.h"
#include "engine/model_weights.h"
#include "engine/output_head.h"
#include "engine/prefix_store.h"
#include "engine/row_batch.h"
#include "engine/step_plan.h"
#include "kernels/backend.h"

namespace tinyloop::engine {

class StepRunner {
 public:
  // All references must outlive the runner.
  StepRunner(const ModelSpec& spec, const ModelWeights& weights, BufferPool& buffers,
             KvCache& cache, const PrefixStore& prefixes, kernels::Backend& backend);

  // A step of one or more passes. Where the backend runs ahead, passes that want no logits are only
  // on their way when run() returns, and finish() waits for them. If a plan wants logits, the
  // logits buffer must exist; the sink has been told about all its rows when run() returns.
  void begin();
  void run(const StepPlan& plan, HeadSink& sink);
  // Between two plans of a step: what has been asked for may begin.
  void start();
  void finish();

 private:
  // One linear layer of several that read the same rows.
  struct Projection {
    const kernels::WeightMatrix& weights;
    kernels::RowView y;
  };

  void copy_pages(const StepPlan& plan);
  void restore(const StepPlan& plan);
  void keep(const StepPlan& plan, PrefixState state);
  void enter(const RowBatch& batch);
  void iterate(const RowBatch& batch);
  void inject(const RowBatch& batch);
  void layers(const std::vector<LayerWeights>& all, const RowBatch& batch);
  // Whether one op begins the layer.
  bool begins_with_qkv(const LayerWeights& weights) const {
    return backend_.wants_qkv() && !weights.q_norm && !weights.k_norm;
  }
  // Of the residual stream.
  kernels::RmsNormArgs norm_of(const WeightVector& weight, const kernels::RowView& y,
                               const RowBatch& batch, bool prepared) const;
  // `prepared`: the norm that each begins with (RmsNormArgs::prepared). They return it for the norm
  // that comes behind.
  bool attention(const LayerWeights& weights, const RowBatch& batch, int32_t cache_layer,
                 bool prepared);
  bool feed_forward(const LayerWeights& weights, const RowBatch& batch,
                    const LayerWeights* next_layer, bool prepared);
  void norm(const kernels::RowView& x, const WeightVector& weight, const kernels::RowView& y,
            int32_t rows);
  void project_norm(const kernels::RowView& x, const WeightVector& weight,
                    std::span<const Projection> projections, int32_t rows);
  void project(const kernels::WeightMatrix& weights, const kernels::RowView& x,
               const kernels::RowView& y, int32_t rows);
  void head_norm(const kernels::RowView& x, const WeightVector& weight, int32_t heads,
                 int32_t rows);
  bool join(const kernels::WeightMatrix& weights, const kernels::RowView& x,
            const WeightVector& post_norm, const RowBatch& batch, const kernels::RmsNormArgs* next);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  BufferPool& buffers_;
  KvCache& cache_;
  const PrefixStore& prefixes_;
  kernels::Backend& backend_;
  const int32_t query_group_;  // heads of a K/V head, where attention wants its queries cut; else 0
  RowBatch entering_, iterating_, leaving_;
  RowBatch restoring_, keeping_;
  std::vector<std::byte*> copy_from_, copy_to_;
  OutputHead head_;
};

}  // namespace tinyloop::engine
