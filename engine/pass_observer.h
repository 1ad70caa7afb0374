// Who sees passes go by: a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace tinyloop::engine {

class Sequence;
struct Decision;
struct StepPlan;

struct PassWork {
  uint64_t pass = 0;        // StepPlan::pass
  int32_t rows = 0;         // that went through the shared block
  int32_t prompt_rows = 0;  // that entered as prompt
};

// Called on the engine's thread. Calls must not reach back into the engine.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // A pass has been decided, and is about to be carried out.
  virtual void on_pass_begin() noexcept = 0;
  // It has been carried out; where the backend runs ahead and nobody waits for a token, it is on
  // its way. A pass that throws has no end.
  virtual void on_pass_end(const PassWork& work) noexcept = 0;
};

// Tells the end of a pass: to the observer, then to the client of each chunk, before any of them is
// told its own end. `decisions` are what `plan` was made of, `sequences` what they point into.
void tell_pass(PassObserver& observer, const StepPlan& plan, std::span<const Decision> decisions,
               std::span<const std::unique_ptr<Sequence>> sequences);

}  // namespace tinyloop::engine
