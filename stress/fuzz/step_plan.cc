// Any bytes as the dump of a step plan: an error, or a plan that prints and parses back to itself.
#include "engine/step_plan.h"

#include "base/check.h"
#include "stress/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tinyloop;
  const auto plan = engine::parse_plan({reinterpret_cast<const char*>(data), size});
  if (!plan) {
    TINYLOOP_CHECK(plan.error().code == errc::invalid_argument && !plan.error().detail.empty());
    return 0;
  }
  TINYLOOP_CHECK(engine::parse_plan(engine::print_plan(*plan)).value() == *plan);
  return 0;
}
