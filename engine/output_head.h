// The end of a pass: from the residual stream of rows that leave to their tokens, all on the
// device.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/buffer_pool.h"
#include "engine/head_sink.h"
#include "engine/model_spec.h"
#include "engine/model_weights.h"
#include "engine/step_plan.h"
#include "kernels/backend.h"

namespace tinyloop::engine {

class OutputHead {
 public:
  // All references must outlive the head.
  OutputHead(const ModelSpec& spec, const ModelWeights& weights, BufferPool& buffers,
             kernels::Backend& backend);

  // logits = softcap(W_out · rms(x)) of the rows of `plan` that want them, and what the sink asks
  // for; as many rows at a time as the logits buffer holds, which must exist. Waits for the device
  // where there is such a row; the sink has been told about all of them when this returns.
  void run(const StepPlan& plan, HeadSink& sink);

 private:
  struct Row {
    int32_t chunk;
    int32_t position;
  };

  void run_rows(std::span<const Row> rows, const int32_t* lines, HeadSink& sink);
  void compute_logits(const int32_t* lines, int32_t rows);
  void sample(std::span<const Row> rows, HeadSink& sink);
  kernels::SampleTerms stage(const HeadTerms& terms);
  void tell(std::span<const Row> rows, HeadSink& sink);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  BufferPool& buffers_;
  kernels::Backend& backend_;
  std::vector<Row> rows_;
  std::vector<int32_t> lines_;  // of the residual buffer
  std::vector<kernels::SampleTerms> terms_;
  std::vector<float> host_logits_;  // of one row, once somebody wants them
  // Shared with the device: [logit_rows], [logit_rows, kMostCandidates].
  kernels::ScoredToken* chosen_ = nullptr;
  kernels::ScoredToken* candidates_ = nullptr;
};

}  // namespace tinyloop::engine
