#include "engine/output_head.h"

#include <algorithm>

#include "base/check.h"

namespace tinyloop::engine {

using kernels::RowView;
using kernels::SampleTerms;
using kernels::ScoredToken;

OutputHead::OutputHead(const ModelSpec& spec, const ModelWeights& weights, BufferPool& buffers,
                       kernels::Backend& backend)
    : spec_(spec), weights_(weights), buffers_(buffers), backend_(backend) {
  // What a pass may need at most: nothing is allocated while it runs.
  const BufferShape& shape = buffers.shape();
  const auto logit_rows = size_t(shape.logit_rows);
  rows_.reserve(size_t(shape.rows));
  lines_.reserve(size_t(shape.rows));
  terms_.reserve(logit_rows);
  const auto share = [&](size_t count) {
    return static_cast<ScoredToken*>(backend_.memory().share(count * sizeof(ScoredToken)));
  };
  chosen_ = share(logit_rows);
  candidates_ = share(logit_rows * kernels::kMostCandidates);
}

void OutputHead::run(const StepPlan& plan, HeadSink& sink) {
  rows_.clear();
  lines_.clear();
  for (size_t c = 0; c < plan.chunks.size(); ++c) {
    const ChunkStep& chunk = plan.chunks[c];
    for (int32_t row = chunk.rows - chunk.logit_rows; row < chunk.rows; ++row) {
      rows_.push_back({int32_t(c), chunk.first_position + row});
      lines_.push_back(plan.slots[size_t(chunk.first_row + row)]);
    }
  }
  const auto capacity = size_t(buffers_.shape().logit_rows);
  for (size_t first = 0; first < rows_.size(); first += capacity) {
    const size_t count = std::min(capacity, rows_.size() - first);
    run_rows(std::span(rows_).subspan(first, count), lines_.data() + first, sink);
  }
}

void OutputHead::run_rows(std::span<const Row> rows, const int32_t* lines, HeadSink& sink) {
  compute_logits(lines, int32_t(rows.size()));
  sample(rows, sink);
  backend_.synchronise();
  tell(rows, sink);
}

void OutputHead::compute_logits(const int32_t* lines, int32_t rows) {
  const auto* staged =
      static_cast<const int32_t*>(backend_.memory().stage(lines, size_t(rows) * sizeof(int32_t)));
  const RowView main = buffers_.main(staged);
  const RowView x = kernels::input_of(weights_.head, buffers_.norm());
  if (const WeightVector& norm = weights_.output_norm) {
    backend_.rms_norm({main, x, norm.data, rows, 1, norm.size, spec_.eps});
  } else if (x.type == kernels::ScalarType::q8) {
    backend_.quantise_rows({main, x, rows, spec_.d_model});
  } else {
    backend_.copy_rows({main, x, rows, spec_.d_model});
  }
  float* logits = buffers_.logits();
  TINYLOOP_CHECK(logits != nullptr);
  backend_.logits({weights_.head, x, logits, rows, spec_.logit_softcap});
}

void OutputHead::sample(std::span<const Row> rows, HeadSink& sink) {
  terms_.clear();
  bool adjusts = false;
  for (const Row& row : rows) {
    terms_.push_back(stage(sink.terms(row.chunk, row.position)));
    adjusts |= terms_.back().adjusts();
  }
  const size_t bytes = terms_.size() * sizeof(SampleTerms);
  backend_.sample(
      {.logits = buffers_.logits(),
       .rows = int32_t(rows.size()),
       .vocab = spec_.vocab,
       .terms = static_cast<const SampleTerms*>(backend_.memory().stage(terms_.data(), bytes)),
       .adjusted = adjusts ? buffers_.adjusted_logits() : nullptr,
       .chosen = chosen_,
       .candidates = candidates_});
}

// A row's terms as the device sees them; its counts are made where they are wanted.
SampleTerms OutputHead::stage(const HeadTerms& terms) {
  kernels::DeviceMemory& memory = backend_.memory();
  SampleTerms staged = terms.sample;
  if (!terms.mask.empty()) {
    staged.mask =
        static_cast<const uint32_t*>(memory.stage(terms.mask.data(), terms.mask.size_bytes()));
  }
  if (!terms.biases.empty()) {
    staged.biases = static_cast<const kernels::LogitBias*>(
        memory.stage(terms.biases.data(), terms.biases.size_bytes()));
    staged.bias_count = int32_t(terms.biases.size());
  }
  if (!terms.counted.empty()) {
    const void* tokens = memory.stage(terms.counted.data(), terms.counted.size_bytes());
    backend_.count_tokens({.counts = staged.counts,
                           .vocab = spec_.vocab,
                           .tokens = static_cast<const int32_t*>(tokens),
                           .prompt = terms.counted_prompt,
                           .total = int32_t(terms.counted.size())});
  }
  return staged;
}

void OutputHead::tell(std::span<const Row> rows, HeadSink& sink) {
  const auto vocab = size_t(spec_.vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [chunk, position] = rows[i];
    if (sink.wants_logits(chunk)) {
      host_logits_.resize(vocab);
      backend_.memory().copy_out(host_logits_.data(), buffers_.logits() + i * vocab,
                                 vocab * sizeof(float));
      sink.on_logits(chunk, position, host_logits_);
    }
    const int32_t wanted = std::clamp(terms_[i].candidates, 0, spec_.vocab);
    sink.on_token(chunk, position, chosen_[i],
                  {candidates_ + i * kernels::kMostCandidates, size_t(wanted)});
  }
}

}  // namespace tinyloop::engine
