#include "engine/step_plan.h"

#include <nlohmann/json.hpp>

namespace tinyloop::engine {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChunkStep, sequence, rows, first_position, depth, iteration,
                                   window, enters, leaves, logit_rows, first_row, pages,
                                   outer_table, loop_table)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepPlan, pass, chunks, tokens, slots, outer_pages, loop_pages)

void StepPlan::clear() {
  chunks.clear();
  tokens.clear();
  slots.clear();
  outer_pages.clear();
  loop_pages.clear();
}

std::string print_plan(const StepPlan& plan) {
  return nlohmann::json(plan).dump();
}

base::Result<StepPlan> parse_plan(const std::string& line) try {
  return nlohmann::json::parse(line).get<StepPlan>();
} catch (const nlohmann::json::exception& e) {
  return base::Error{errc::invalid_argument, std::string("step plan: ") + e.what()};
}

}  // namespace tinyloop::engine
