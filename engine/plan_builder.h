// From decisions to a complete plan: binds residual lines and pages to the rows that enter, and
// writes down what the runner needs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace tinyloop::engine {

// The lines of the residual buffer that are not taken.
class SlotPool {
 public:
  explicit SlotPool(int32_t slots);
  int32_t free() const { return int32_t(free_.size()); }
  void take(int32_t count, std::vector<int32_t>& into);  // count <= free()
  void give_back(std::vector<int32_t>& slots);           // empties `slots`

 private:
  std::vector<int32_t> free_;  // last in, first out
};

// Room for plans of up to `chunks` chunks, `rows` rows and `pages` page places a table, so that
// add_chunk allocates nothing. Never shrinks; throws std::bad_alloc.
void reserve_plan(StepPlan& plan, size_t chunks, size_t rows, size_t pages);

// Binds what `decision` needs to enter. false: no device memory for pages; nothing has changed.
bool bind_entry(const Decision& decision, Sequence& sequence, SlotPool& slots);

// Appends the chunk to the plan, and the copies that its pages wait for. The sequence holds slots
// and pages for it.
void add_chunk(const Decision& decision, Sequence& sequence, StepPlan& plan);

}  // namespace tinyloop::engine
