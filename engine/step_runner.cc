#include "engine/step_runner.h"

#include <array>

#include "base/check.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::engine {

using kernels::input_of;
using kernels::LinearArgs;
using kernels::RowView;
using kernels::WeightLayout;

namespace {

bool in_panels(const kernels::WeightMatrix& weights) {
  return weights.layout == WeightLayout::panels;
}

// Whether one op can make the hidden vector: gate and up are of one kind, and what they write is
// what `down` reads.
bool is_fused(const LayerWeights& weights) {
  const WeightLayout layout = weights.up.layout;
  if (layout == WeightLayout::rows || weights.down.layout != layout) return false;
  if (!weights.gate) return true;
  if (layout == WeightLayout::panels) return in_panels(weights.gate);
  return kernels::tile_type(weights.gate.type) == kernels::tile_type(weights.up.type);
}

}  // namespace

StepRunner::StepRunner(const ModelSpec& spec, const ModelWeights& weights, BufferPool& buffers,
                       KvCache& cache, const PrefixStore& prefixes, kernels::Backend& backend)
    : spec_(spec),
      weights_(weights),
      buffers_(buffers),
      cache_(cache),
      prefixes_(prefixes),
      backend_(backend),
      query_group_(backend.wants_query_tiles() ? spec.heads / spec.kv_heads : 0),
      head_(spec, weights, buffers, backend) {}

void StepRunner::begin() {
  backend_.memory().begin_step();
}

void StepRunner::start() {
  backend_.start();
}

void StepRunner::finish() {
  backend_.synchronise();
}

void StepRunner::run(const StepPlan& plan, HeadSink& sink) {
  kernels::DeviceMemory& memory = backend_.memory();
  entering_.gather(plan, RowBatch::Stage::enter, cache_, memory, query_group_);
  iterating_.gather(plan, RowBatch::Stage::iterate, cache_, memory, query_group_);
  leaving_.gather(plan, RowBatch::Stage::coda, cache_, memory, query_group_);
  restoring_.gather(plan, RowBatch::Stage::restore, cache_, memory, 0);
  keeping_.gather(plan, RowBatch::Stage::keep, cache_, memory, 0);

  copy_pages(plan);
  restore(plan);
  if (entering_.rows() > 0) enter(entering_);
  if (iterating_.rows() > 0) iterate(iterating_);
  keep(plan, PrefixState::loop_rows);
  if (leaving_.rows() > 0) layers(weights_.coda, leaving_);
  keep(plan, PrefixState::final_row);
  head_.run(plan, sink);
}

// What has several owners gets copies before anybody writes.
void StepRunner::copy_pages(const StepPlan& plan) {
  // As much as the plan has room for, that a plan with copies allocates nothing here either.
  for (auto* array : {&copy_from_, &copy_to_}) array->reserve(plan.copies.capacity());
  for (const PageKind kind : {PageKind::prelude, PageKind::coda, PageKind::loop}) {
    const PagePool& pool = cache_.pool(kind);
    copy_from_.clear();
    copy_to_.clear();
    for (const PageCopy& copy : plan.copies) {
      if (kind_of(copy.group) != kind) continue;
      copy_from_.push_back(pool.address(copy.from));
      copy_to_.push_back(pool.address(copy.to));
    }
    if (copy_from_.empty()) continue;
    const size_t bytes = copy_from_.size() * sizeof(std::byte*);
    kernels::DeviceMemory& memory = backend_.memory();
    backend_.copy_pages(
        {.from = static_cast<std::byte* const*>(memory.stage(copy_from_.data(), bytes)),
         .to = static_cast<std::byte* const*>(memory.stage(copy_to_.data(), bytes)),
         .pages = int32_t(copy_from_.size()),
         .page_bytes = pool.page_bytes()});
  }
}

// Rows take up where a cached prefix has left them.
void StepRunner::restore(const StepPlan& plan) {
  int32_t row = 0;
  for (const ChunkStep& chunk : plan.chunks) {
    if (!chunk.restores) continue;
    const CachedPrefixRef prefix = prefixes_.find(chunk.prefix);
    TINYLOOP_CHECK(prefix != nullptr);
    const bool loop_rows = prefix->shape().state == PrefixState::loop_rows;
    const int32_t first = loop_rows ? chunk.first_position : 0;
    const int32_t* slots = restoring_.slots() + row;
    backend_.copy_rows(
        {prefix->residual().from_row(first), buffers_.main(slots), chunk.rows, spec_.d_model});
    if (loop_rows && spec_.injection != Injection::none) {
      backend_.copy_rows({prefix->injected().from_row(first), buffers_.injected(slots), chunk.rows,
                          spec_.d_model});
    }
    row += chunk.rows;
  }
}

// Snapshots of rows that leave, for prefixes of the given state: of every row behind the loop, or
// of the last one behind the coda.
void StepRunner::keep(const StepPlan& plan, PrefixState state) {
  int32_t row = 0;
  for (const ChunkStep& chunk : plan.chunks) {
    if (chunk.keeps == 0) continue;
    const CachedPrefixRef prefix = prefixes_.find(chunk.keeps);
    TINYLOOP_CHECK(prefix != nullptr);
    const int32_t* slots = keeping_.slots() + row;
    row += chunk.rows;
    if (prefix->shape().state != state) continue;
    if (state == PrefixState::final_row) {
      backend_.copy_rows(
          {buffers_.main(slots + chunk.rows - 1), prefix->residual(), 1, spec_.d_model});
      continue;
    }
    const int32_t first = chunk.first_position;
    backend_.copy_rows(
        {buffers_.main(slots), prefix->residual().from_row(first), chunk.rows, spec_.d_model});
    if (spec_.injection == Injection::none) continue;
    backend_.copy_rows(
        {buffers_.injected(slots), prefix->injected().from_row(first), chunk.rows, spec_.d_model});
  }
}

// e = prelude(E[token] · scale); s_0 = e, zeros, or normal values.
void StepRunner::enter(const RowBatch& batch) {
  const RowView main = buffers_.main(batch.slots());
  backend_.embed({.table = weights_.embedding,
                  .tokens = batch.tokens(),
                  .rows = batch.rows(),
                  .scale = spec_.embedding_scale,
                  .y = main});
  layers(weights_.prelude, batch);
  if (spec_.injection != Injection::none) {
    backend_.copy_rows({main, buffers_.injected(batch.slots()), batch.rows(), spec_.d_model});
  }
  if (spec_.initial_state == InitialState::prelude) return;
  backend_.initial_state(
      {.std = spec_.initial_state == InitialState::normal ? spec_.initial_state_std : 0.0f,
       .positions = batch.positions(),
       .y = main,
       .rows = batch.rows(),
       .cols = spec_.d_model});
}

// s_i = block(inject(s_{i−1}, e)), normed where the file has a loop norm. Rows at different
// iterations run together: only their page tables differ.
void StepRunner::iterate(const RowBatch& batch) {
  inject(batch);
  layers(weights_.shared, batch);
  if (weights_.loop_norm) {
    const RowView main = buffers_.main(batch.slots());
    norm(main, weights_.loop_norm, main, batch.rows());
  }
}

void StepRunner::inject(const RowBatch& batch) {
  const RowView main = buffers_.main(batch.slots());
  const RowView e = buffers_.injected(batch.slots());
  const RowView scratch = buffers_.scratch1(), branch = buffers_.norm();
  const int32_t rows = batch.rows(), d = spec_.d_model;
  switch (spec_.injection) {
    case Injection::none:
      return;
    case Injection::add:
      return backend_.residual_add({e, main, rows, d});
    case Injection::linear:
      backend_.copy_rows({main, scratch, rows, d});
      backend_.copy_rows({e, scratch.from_column(d), rows, d});
      return project(weights_.inject, scratch, main, rows);
    case Injection::diagonal:
      backend_.copy_rows({e, scratch, rows, d});
      project(weights_.inject, scratch, branch, rows);
      return backend_.scale_add({weights_.inject_decay.data, branch, main, rows, d});
  }
}

// One after another. Where a layer's last matrix prepares the norm that the next layer begins with,
// that one need not be taken.
void StepRunner::layers(const std::vector<LayerWeights>& all, const RowBatch& batch) {
  bool prepared = false;
  for (size_t l = 0; l < all.size(); ++l) {
    prepared = attention(all[l], batch, int32_t(l), prepared);
    prepared = feed_forward(all[l], batch, l + 1 < all.size() ? &all[l + 1] : nullptr, prepared);
  }
}

kernels::RmsNormArgs StepRunner::norm_of(const WeightVector& weight, const RowView& y,
                                         const RowBatch& batch, bool prepared) const {
  const RowView main = buffers_.main(batch.slots());
  return {main, y, weight.data, batch.rows(), 1, weight.size, spec_.eps, prepared};
}

// x += post(W_o · attn(rms(x)))
bool StepRunner::attention(const LayerWeights& weights, const RowBatch& batch, int32_t cache_layer,
                           bool prepared) {
  const int32_t rows = batch.rows(), head_dim = spec_.head_dim;
  const int32_t q_width = spec_.heads * head_dim, kv_width = spec_.kv_heads * head_dim;
  const RowView out = buffers_.attn_down();
  const RowView q = buffers_.scratch1();
  const RowView k = q.from_column(q_width), v = k.from_column(kv_width);
  const kernels::KvView cache = batch.view(cache_, cache_layer);

  const RowView main = buffers_.main(batch.slots());
  const float* table = buffers_.rope_table();
  if (begins_with_qkv(weights)) {
    const RowView x = buffers_.norm();
    backend_.qkv({norm_of(weights.attn_norm, x, batch, prepared),
                  {weights.q, x, q, rows},
                  {weights.k, x, k, rows},
                  {weights.v, x, v, rows},
                  cache,
                  table,
                  spec_.heads});
  } else {
    project_norm(main, weights.attn_norm, {{{weights.q, q}, {weights.k, k}, {weights.v, v}}}, rows);
    head_norm(q, weights.q_norm, spec_.heads, rows);
    head_norm(k, weights.k_norm, spec_.kv_heads, rows);
    backend_.rope({q, batch.positions(), table, rows, spec_.heads, head_dim});
    backend_.rope({k, batch.positions(), table, rows, spec_.kv_heads, head_dim});
    backend_.kv_append({k, v, cache, rows});
  }
  backend_.attention({q, out, cache, rows, spec_.heads});
  if (in_panels(weights.o)) backend_.quantise_rows({out, out.as_q8(), rows, weights.o.cols});
  const kernels::RmsNormArgs next =
      norm_of(weights.ffn_norm, input_of(weights.up, buffers_.norm()), batch, false);
  return join(weights.o, input_of(weights.o, out), weights.attn_post_norm, batch,
              is_fused(weights) ? &next : nullptr);
}

// x += post(W_down · act(W_gate · h, W_up · h)), h = rms(x)
bool StepRunner::feed_forward(const LayerWeights& weights, const RowBatch& batch,
                              const LayerWeights* next_layer, bool prepared) {
  const int32_t rows = batch.rows();
  const RowView x = buffers_.norm(), hidden = input_of(weights.down, buffers_.attn_down());
  if (is_fused(weights)) {
    const RowView input = input_of(weights.up, x);
    backend_.normed_ffn_hidden(norm_of(weights.ffn_norm, input, batch, prepared),
                               {spec_.ffn_type, weights.gate, weights.up, input, hidden, rows});
  } else {
    const RowView gate = buffers_.scratch1(), up = gate.from_column(spec_.ffn);
    const Projection projections[] = {{weights.up, up}, {weights.gate, gate}};
    project_norm(buffers_.main(batch.slots()), weights.ffn_norm,
                 std::span(projections).first(weights.gate ? 2 : 1), rows);
    backend_.ffn_activation({spec_.ffn_type, gate, up, hidden, rows, spec_.ffn});
  }
  kernels::RmsNormArgs next;
  const bool folds = next_layer && begins_with_qkv(*next_layer);
  if (folds) next = norm_of(next_layer->attn_norm, x, batch, false);
  return join(weights.down, hidden, weights.ffn_post_norm, batch, folds ? &next : nullptr);
}

// The last matrix of a layer's branch; then the branch joins the residual stream. Whether `next`,
// the norm that comes behind, has been prepared.
bool StepRunner::join(const kernels::WeightMatrix& weights, const RowView& x,
                      const WeightVector& post_norm, const RowBatch& batch,
                      const kernels::RmsNormArgs* next) {
  const RowView branch = buffers_.norm(), main = buffers_.main(batch.slots());
  const int32_t rows = batch.rows();
  if (post_norm) {
    backend_.linear({weights, x, branch, rows});
    return backend_.normed_add(
        {{branch, branch, post_norm.data, rows, 1, post_norm.size, spec_.eps}, main}, next);
  }
  if (next) return backend_.linear_add_before({weights, x, main, rows}, branch, *next);
  backend_.linear_add({weights, x, main, rows}, branch);
  return false;
}

void StepRunner::norm(const RowView& x, const WeightVector& weight, const RowView& y,
                      int32_t rows) {
  backend_.rms_norm({x, y, weight.data, rows, 1, weight.size, spec_.eps});
}

// W · rms(x) for every projection. Matrices may differ in the form of the rows that they read: each
// form is made once, in the norm buffer.
void StepRunner::project_norm(const RowView& x, const WeightVector& weight,
                              std::span<const Projection> projections, int32_t rows) {
  for (const WeightLayout layout :
       {WeightLayout::rows, WeightLayout::panels, WeightLayout::tiles}) {
    std::array<LinearArgs, 3> layers;
    size_t count = 0;
    for (const Projection& p : projections) {
      if (p.weights.layout != layout) continue;
      layers[count++] = {p.weights, input_of(p.weights, buffers_.norm()), p.y, rows};
    }
    if (count == 0) continue;
    norm(x, weight, layers[0].x, rows);
    backend_.linear_all(std::span(layers).first(count));
  }
}

// W · x. Leaves the rows of x in the form that W reads.
void StepRunner::project(const kernels::WeightMatrix& weights, const RowView& x, const RowView& y,
                         int32_t rows) {
  const RowView input = input_of(weights, x);
  if (input.type != x.type) backend_.quantise_rows({x, input, rows, weights.cols});
  backend_.linear({weights, input, y, rows});
}

// q or k: a norm over each head, or over all heads at once; the weight's length says which.
void StepRunner::head_norm(const RowView& x, const WeightVector& weight, int32_t heads,
                           int32_t rows) {
  if (!weight) return;
  const int32_t groups = heads * spec_.head_dim / weight.size;
  backend_.rms_norm({x, x, weight.data, rows, groups, weight.size, spec_.eps});
}

}  // namespace tinyloop::engine
