#include "engine/pass_observer.h"

#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace tinyloop::engine {

void tell_pass(PassObserver& observer, const StepPlan& plan, std::span<const Decision> decisions,
               std::span<const std::unique_ptr<Sequence>> sequences) {
  PassWork work{.pass = plan.pass};
  for (const Decision& d : decisions) {
    if (d.iteration != ChunkStep::kHeld) work.rows += d.rows;
    work.prompt_rows += entering_prompt_rows(sequences[size_t(d.sequence)]->progress(), d);
  }
  observer.on_pass_end(work);
  for (size_t i = 0; i < decisions.size(); ++i) {
    sequences[size_t(decisions[i].sequence)]->client().on_pass(plan.chunks[i]);
  }
}

}  // namespace tinyloop::engine
