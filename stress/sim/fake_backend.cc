#include "stress/sim/fake_backend.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "stress/sim/violation.h"

namespace tinyloop::sim {

using kernels::RowView;

namespace {

Word read(const void* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
Word get(const RowView& view, int32_t row) {
  return read(view.f32_row(row));
}
void put(const RowView& view, int32_t row, Word word) {
  std::memcpy(view.f32_row(row), &word, sizeof word);
}

// A page that one row writes must be no other row's but those of its own table.
void check_owner(const kernels::KvView& view, int32_t rows, int32_t writer) {
  const int32_t place = view.positions[writer] / kernels::kPagePositions;
  const int32_t table = view.row_table[writer];
  const std::byte* const page = view.pages[view.tables[table] + place];
  for (int32_t row = 0; row < rows; ++row) {
    if (view.row_table[row] == table) continue;
    const std::byte* const* other = view.pages + view.tables[view.row_table[row]];
    const int32_t last = view.positions[row] / kernels::kPagePositions;
    require(std::find(other, other + last + 1, page) == other + last + 1,
            "a row writes a page that another sequence reads");
  }
}

}  // namespace

FakeBackend::FakeBackend(Device& device, Scheduler& scheduler, std::string name)
    : device_(device), scheduler_(scheduler), name_(std::move(name)), memory_(device) {
  device_.alive = true;
}

// Where the device may break down, and others may run meanwhile.
Allocating FakeBackend::begin_op() {
  scheduler_.point();
  device_.may_break();
  return Allocating(nullptr);
}

kernels::KvLayout FakeBackend::kv_layout(int32_t, int32_t) const {
  kernels::KvLayout layout;
  layout.kv_heads = 1;
  layout.head_dim = int32_t(device_.layer_bytes / (2 * kernels::kPagePositions * sizeof(float)));
  return layout;
}

void FakeBackend::embed(const kernels::EmbedArgs& args) {
  const Allocating ours = begin_op();
  ++device_.passes;
  const Word table = read(args.table.data);
  for (int32_t r = 0; r < args.rows; ++r) put(args.y, r, sim::embed(table, args.tokens[r]));
}

void FakeBackend::rms_norm(const kernels::RmsNormArgs& args) {
  const Allocating ours = begin_op();
  const Word weight = read(args.weight);
  for (int32_t r = 0; r < args.rows; ++r) put(args.y, r, norm(weight, get(args.x, r)));
}

void FakeBackend::linear_all(std::span<const kernels::LinearArgs> layers) {
  const Allocating ours = begin_op();
  for (const kernels::LinearArgs& args : layers) {
    const Word matrix = read(args.weights.data);
    const bool two = args.weights.cols > kWidth;
    for (int32_t r = 0; r < args.rows; ++r) {
      const Word x = get(args.x, r);
      put(args.y, r,
          two ? sim::linear(matrix, x, get(args.x.from_column(kWidth), r))
              : sim::linear(matrix, x));
    }
  }
}

void FakeBackend::rope(const kernels::RopeArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) {
    put(args.x, r, rotate(args.positions[r], get(args.x, r)));
  }
}

Cell& FakeBackend::cell(const kernels::KvView& view, int32_t row, int32_t position) {
  const int32_t entry = view.tables[view.row_table[row]] + position / kernels::kPagePositions;
  const std::byte* const page = view.pages[entry];
  return memory_.cells(page ? page + view.layer_offset
                            : nullptr)[position % kernels::kPagePositions];
}

void FakeBackend::kv_append(const kernels::KvAppendArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) {
    check_owner(args.cache, args.rows, r);
    const int32_t position = args.cache.positions[r];
    cell(args.cache, r, position) = {get(args.k, r), get(args.v, r), position};
  }
}

void FakeBackend::attention(const kernels::AttentionArgs& args) {
  const Allocating ours = begin_op();
  const kernels::KvView& view = args.cache;
  for (int32_t r = 0; r < args.rows; ++r) {
    const int32_t position = view.positions[r], window = view.windows[view.row_table[r]];
    Word sum = attend(get(args.q, r));
    for (int32_t p = window == 0 ? 0 : std::max(0, position - window + 1); p <= position; ++p) {
      const Cell& read_cell = cell(view, r, p);
      require(read_cell.k != kPoison, "attention reads what nobody has written");
      require(read_cell.position == p, "attention reads another position than it means to");
      sum = meet(sum, read_cell.k, read_cell.v);
    }
    put(args.out, r, sum);
  }
}

void FakeBackend::ffn_activation(const kernels::FfnActivationArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) {
    put(args.y, r, activate(get(args.gate, r), get(args.up, r)));
  }
}

void FakeBackend::residual_add(const kernels::ResidualAddArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) put(args.y, r, add(get(args.y, r), get(args.x, r)));
}

void FakeBackend::copy_rows(const kernels::CopyRowsArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) put(args.y, r, get(args.x, r));
}

void FakeBackend::copy_pages(const kernels::CopyPagesArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t i = 0; i < args.pages; ++i) {
    memory_.copy_page(args.from[i], args.to[i], args.page_bytes);
  }
}

void FakeBackend::scale_add(const kernels::ScaleAddArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) {
    put(args.y, r, sim::scale_add(read(args.a), get(args.x, r), get(args.y, r)));
  }
}

void FakeBackend::initial_state(const kernels::InitialStateArgs& args) {
  const Allocating ours = begin_op();
  for (int32_t r = 0; r < args.rows; ++r) put(args.y, r, sim::initial_state(args.positions[r]));
}

void FakeBackend::logits(const kernels::LogitsArgs& args) {
  const Allocating ours = begin_op();
  const Word matrix = read(args.head.data);
  for (int32_t r = 0; r < args.rows; ++r) {
    const Word row = head(matrix, get(args.x, r));
    float* const out = args.logits + size_t(r) * kVocab;
    for (int32_t i = 0; i < kVocab; ++i) out[i] = logit(row, i);
    if (!Device::due(device_.spoil_in)) continue;
    ++device_.spoiled;
    out[0] = std::numeric_limits<float>::quiet_NaN();
  }
}

void FakeBackend::sample(const kernels::SampleArgs& args) {
  const Allocating ours = begin_op();
  const auto vocab = size_t(args.vocab);
  for (int32_t r = 0; r < args.rows; ++r) {
    args.chosen[r] =
        kernels::sample_row({args.logits + size_t(r) * vocab, vocab}, args.terms[r],
                            args.adjusted ? args.adjusted + size_t(r) * vocab : nullptr,
                            args.candidates + size_t(r) * kernels::kMostCandidates);
  }
}

void FakeBackend::count_tokens(const kernels::CountTokensArgs& args) {
  const Allocating ours = begin_op();
  kernels::count_row(args);
}

void FakeBackend::synchronise() {
  const Allocating ours = begin_op();
  if (device_.slow_one_in == 0 || !scheduler_.random().one_in(device_.slow_one_in)) return;
  ++device_.slow;
  scheduler_.clock().advance(std::chrono::microseconds(scheduler_.random().between(100, 20'000)));
}

void FakeBackend::quantise_rows(const kernels::QuantiseRowsArgs&) {
  violation("quantise_rows: no matrix of the simulated device lies in panels");
}
void FakeBackend::ffn_hidden(const kernels::FfnHiddenArgs&) {
  violation("ffn_hidden: no matrix of the simulated device lies in panels or tiles");
}

}  // namespace tinyloop::sim
