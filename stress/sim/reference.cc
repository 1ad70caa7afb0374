#include "stress/sim/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/sampling_math.h"

namespace tinyloop::sim {

namespace {

constexpr size_t kMostRows = 200'000;  // kept; then all are forgotten

std::array<float, kVocab> logits_of(Word head) {
  std::array<float, kVocab> logits;
  for (int32_t i = 0; i < kVocab; ++i) logits[size_t(i)] = logit(head, i);
  return logits;
}

}  // namespace

struct Row {
  int32_t token = 0, depth = 0;
  Word head = 0;
  std::vector<std::pair<Word, Word>> slots;  // K and V of every layer that the row has met
  std::vector<std::unique_ptr<Row>> next;
};

Reference::Reference(const SimModel& model) : model_(model) {}
Reference::~Reference() = default;

Reference::Text::Text(Reference& reference, int32_t window)
    : reference_(reference), window_(window), root_(nullptr) {
  if (reference.rows_ > kMostRows) {
    reference.roots_.clear();
    reference.rows_ = 0;
  }
  for (auto& [known, row] : reference.roots_) {
    if (known == window) root_ = row.get();
  }
  if (root_) return;
  reference.roots_.emplace_back(window, std::make_unique<Row>());
  root_ = reference.roots_.back().second.get();
}

void Reference::Text::push(int32_t token, int32_t depth) {
  Row* const parent = rows_.empty() ? root_ : rows_.back();
  for (const auto& row : parent->next) {
    if (row->token == token && row->depth == depth) return rows_.push_back(row.get());
  }
  rows_.push_back(reference_.compute(*this, token, depth));
}

Row* Reference::compute(const Text& text, int32_t token, int32_t depth) {
  const testing::ModelShape& shape = model_.shape();
  const auto prelude = size_t(shape.prelude), shared = size_t(shape.shared);
  const auto coda = size_t(shape.coda);
  const auto position = int32_t(text.rows_.size());
  auto made = std::make_unique<Row>();
  Row& row = *made;
  row.token = token;
  row.depth = depth;
  row.slots.resize(prelude + coda + size_t(depth) * shared);
  Word x = embed(model_.embedding, token);
  for (size_t p = 0; p < prelude; ++p) x = layer(model_.layers[p], text, row, p, x);
  const Word e = x;
  if (shape.initial_state == "zeros") x = initial_state(position);
  for (size_t i = 0; i < size_t(depth); ++i) {
    if (shape.injection == "add") x = add(x, e);
    if (shape.injection == "linear") x = linear(model_.inject, x, e);
    for (size_t l = 0; l < shared; ++l) {
      x = layer(model_.layers[prelude + l], text, row, prelude + coda + i * shared + l, x);
    }
    if (shape.loop_norm) x = norm(model_.loop_norm, x);
  }
  for (size_t c = 0; c < coda; ++c) {
    x = layer(model_.layers[prelude + shared + c], text, row, prelude + c, x);
  }
  row.head = head(model_.head, norm(model_.output_norm, x));
  Row& parent = text.rows_.empty() ? *text.root_ : *text.rows_.back();
  parent.next.push_back(std::move(made));
  ++rows_;
  return &row;
}

Word Reference::layer(const LayerTags& tags, const Text& text, Row& row, size_t slot,
                      Word x) const {
  const auto position = int32_t(text.rows_.size());
  const bool post_norms = model_.shape().post_norms;
  const Word input = norm(tags.attn_norm, x);
  row.slots[slot] = {rotate(position, linear(tags.k, input)), linear(tags.v, input)};
  Word sum = attend(rotate(position, linear(tags.q, input)));
  const int32_t first = text.window_ == 0 ? 0 : std::max(0, position - text.window_ + 1);
  for (int32_t p = first; p < position; ++p) {
    const auto& [k, v] = text.rows_[size_t(p)]->slots[slot];
    sum = meet(sum, k, v);
  }
  sum = meet(sum, row.slots[slot].first, row.slots[slot].second);
  const Word branch = linear(tags.o, sum);
  x = add(x, post_norms ? norm(tags.attn_post_norm, branch) : branch);
  const Word h = norm(tags.ffn_norm, x);
  const Word down = linear(tags.down, activate(linear(tags.gate, h), linear(tags.up, h)));
  return add(x, post_norms ? norm(tags.ffn_post_norm, down) : down);
}

int32_t Reference::Text::next_token(const Choosing& choosing, size_t prompt) const {
  auto logits = logits_of(rows_.back()->head);
  if (choosing.frequency_penalty != 0) {
    std::array<uint32_t, kVocab> counts{};
    for (size_t row = prompt; row < rows_.size(); ++row) ++counts[size_t(rows_[row]->token)];
    for (size_t id = 0; id < logits.size(); ++id) {
      logits[id] = kernels::penalised(logits[id], counts[id], {1, 0, choosing.frequency_penalty});
    }
  }
  std::array<int32_t, kVocab> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  if (choosing.temperature == 0) return order[0];
  const size_t count = choosing.top_k == 0 ? order.size() : size_t(choosing.top_k);
  int32_t best = order[0];
  float most = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < std::min(count, order.size()); ++i) {
    const auto id = uint32_t(order[i]);
    const auto words =
        kernels::noise_words(choosing.seed, rows_.size(), id / kernels::kNoiseTokens);
    const float scaled = (logits[id] - logits[size_t(order[0])]) / choosing.temperature;
    const float value = scaled + kernels::gumbel(words[id % kernels::kNoiseTokens]);
    if (value < most || (value == most && order[i] > best)) continue;
    most = value;
    best = order[i];
  }
  return best;
}

float Reference::Text::logprob(int32_t token) const {
  const auto logits = logits_of(rows_.back()->head);
  double sum = 0;
  for (const float value : logits) sum += std::exp(double(value));
  return float(double(logits[size_t(token)]) - std::log(sum));
}

Reference& reference(size_t index) {
  static std::vector<std::unique_ptr<Reference>> all = [] {
    std::vector<std::unique_ptr<Reference>> made;
    for (const SimModel& model : sim_models()) made.push_back(std::make_unique<Reference>(model));
    return made;
  }();
  return *all[index];
}

}  // namespace tinyloop::sim
