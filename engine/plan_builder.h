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

// What plans may need at most.
struct PlanRoom {
  size_t chunks = 0;
  size_t rows = 0;
  size_t pages = 0;   // page places a table
  size_t copies = 0;  // of pages
};

// Room for plans, so that add_chunk allocates nothing. Never shrinks; throws std::bad_alloc.
void reserve_plan(StepPlan& plan, const PlanRoom& room);

// Binds what `decision` needs to enter. false: no device memory for pages; nothing has changed.
bool bind_entry(const Decision& decision, Sequence& sequence, SlotPool& slots);

// Appends the chunk to the plan, and the copies that its pages wait for. The sequence holds slots
// and pages for it.
void add_chunk(const Decision& decision, Sequence& sequence, StepPlan& plan);

}  // namespace tinyloop::engine
