#include "actors/distributions.h"

namespace tinyloop::actors {

void Distributions::count_step(Duration time, const engine::StepOutcome& step) noexcept {
  if (step.passes == 0) return;
  step_.count(seconds(time));
  pass_rows_.count(double(step.block_rows) / step.passes);
}

void Distributions::fill(Metrics& metrics) const {
  metrics.queue_s = queue_.snapshot();
  metrics.first_token_s = first_token_.snapshot();
  metrics.token_interval_s = token_interval_.snapshot();
  metrics.request_s = request_.snapshot();
  metrics.step_s = step_.snapshot();
  metrics.pass_rows = pass_rows_.snapshot();
}

}  // namespace tinyloop::actors
