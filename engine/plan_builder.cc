#include "engine/plan_builder.h"

#include <algorithm>

#include "base/check.h"

namespace tinyloop::engine {

SlotPool::SlotPool(int32_t slots) {
  free_.reserve(size_t(slots));
  for (int32_t slot = slots; slot-- > 0;) free_.push_back(slot);
}

void SlotPool::take(int32_t count, std::vector<int32_t>& into) {
  TINYLOOP_CHECK(count <= free());
  for (int32_t i = 0; i < count; ++i) {
    into.push_back(free_.back());
    free_.pop_back();
  }
}

void SlotPool::give_back(std::vector<int32_t>& slots) {
  while (!slots.empty()) {
    free_.push_back(slots.back());
    slots.pop_back();
  }
}

void reserve_plan(StepPlan& plan, const PlanRoom& room) {
  const auto grow = [](auto& array, size_t size) {
    // Doubling: one more sequence at a time must not copy the array each time.
    if (size > array.capacity()) array.reserve(std::max(size, 2 * array.capacity()));
  };
  grow(plan.copies, room.copies);
  grow(plan.chunks, room.chunks);
  grow(plan.tokens, room.rows);
  grow(plan.slots, room.rows);
  grow(plan.prelude_pages, room.pages);
  grow(plan.coda_pages, room.pages);
  grow(plan.loop_pages, room.pages);
}

bool bind_entry(const Decision& decision, Sequence& sequence, SlotPool& slots) {
  if (!sequence.cache().prepare(sequence.written_by(decision.rows))) return false;
  slots.take(decision.rows, sequence.slots());
  return true;
}

void add_chunk(const Decision& decision, Sequence& sequence, StepPlan& plan) {
  const SequenceProgress& progress = sequence.progress();
  const int32_t end = progress.done + decision.rows;
  const int32_t pages = pages_for(end);
  ChunkStep chunk{
      .sequence = sequence.id(),
      .rows = decision.rows,
      .first_position = progress.done,
      .depth = progress.last_iteration(),
      .iteration = decision.iteration,
      .window = sequence.request().window,
      .enters = decision.enters && !progress.restores(),
      .restores = decision.enters && progress.restores(),
      .leaves = decision.leaves,
      .coda = decision.leaves && sequence.runs_coda(),
      .prefix = decision.enters && progress.restores() ? sequence.request().base->id() : 0,
      .keeps = decision.leaves ? sequence.keeps(end) : 0,
      .logit_rows = decision.leaves ? sequence.logit_rows(decision.rows, end) : 0,
      .first_row = int32_t(plan.tokens.size()),
      .pages = pages,
      .prelude_table = int32_t(plan.prelude_pages.size()),
      .coda_table = int32_t(plan.coda_pages.size()),
      .loop_table = int32_t(plan.loop_pages.size())};
  for (int32_t row = 0; row < decision.rows; ++row) {
    plan.tokens.push_back(sequence.token(progress.done + row));
    plan.slots.push_back(sequence.slots()[size_t(row)]);
  }
  const auto append = [](std::vector<int32_t>& to, std::span<const int32_t> table) {
    to.insert(to.end(), table.begin(), table.end());
  };
  SequenceCache& cache = sequence.cache();
  if (chunk.enters) append(plan.prelude_pages, cache.pages(kPreludeGroup));
  if (chunk.coda) append(plan.coda_pages, cache.pages(kCodaGroup));
  if (chunk.iteration != ChunkStep::kHeld) {
    append(plan.loop_pages, cache.pages(kFirstLoopGroup + chunk.iteration));
  }
  plan.copies.insert(plan.copies.end(), cache.copies().begin(), cache.copies().end());
  cache.copies().clear();
  plan.chunks.push_back(chunk);
}

}  // namespace tinyloop::engine
