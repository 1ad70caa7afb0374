#include "stress/sim/tally.h"

#include <cstdio>
#include <utility>

#include "stress/sim/host_memory.h"

namespace tinyloop::sim {

namespace {

// What a long run must have met: otherwise it covers less than it should.
const std::pair<OpKind, const char*> kExpected[] = {
    {OpKind::generate, "max_tokens"},
    {OpKind::generate, "stop_sequence"},
    {OpKind::generate, "cancelled"},
    {OpKind::generate, "deadline"},
    {OpKind::generate, "invalid_argument"},
    {OpKind::generate, "out_of_memory"},
    {OpKind::generate, "overloaded"},
    {OpKind::generate, "deadline_exceeded"},
    {OpKind::generate, "aborted"},
    {OpKind::generate, "shutdown"},
    {OpKind::generate, "model_closed"},
    {OpKind::generate, "replica_failed"},
    {OpKind::generate, "internal"},
    {OpKind::generate, "wrong_model"},
    {OpKind::generate, "handle_lost"},
    {OpKind::generate, "loop_mismatch"},
    {OpKind::chunks, "max_tokens"},
    {OpKind::chunks, "cancelled"},
    {OpKind::stream, "max_tokens"},
    {OpKind::stream, "cancelled"},
    {OpKind::stream, "dropped"},
    {OpKind::stream, "overloaded"},
    {OpKind::score, "max_tokens"},
    {OpKind::score, "cancelled"},
    {OpKind::build_prefix, "built"},
    {OpKind::build_prefix, "overloaded"},
    {OpKind::build_prefix, "aborted"},
    {OpKind::build_resume, "built"},
    {OpKind::build_resume, "out_of_memory"},
    {OpKind::deepen, "built"},
    {OpKind::register_prefix, "registered"},
    {OpKind::register_prefix, "out_of_memory"},
    {OpKind::prefix_info, "live"},
    {OpKind::release, "released"},
    {OpKind::trim, "gave back"},
    {OpKind::drain_replica, "drained"},
    {OpKind::drain_replica, "overloaded"},
    {OpKind::drain_replica, "shutdown"},
    {OpKind::reload_replica, "loaded again"},
    {OpKind::reload_replica, "out_of_memory"},
    {OpKind::reload_replica, "replica_failed"},
    {OpKind::trace, "events"},
    {OpKind::trace, "none"},
    {OpKind::load, "loaded"},
    {OpKind::load, "out_of_memory"},
    {OpKind::load, "replica_failed"},
    {OpKind::load, "aborted"},
    {OpKind::load, "shutdown"},
    {OpKind::unload, "unloaded"},
    {OpKind::shutdown, "shut down"},
};

}  // namespace

void Tally::print() const {
  std::printf("%llu seeds: %llu scheduling steps, %llu turns, %llu interruptions, %llu passes\n",
              (unsigned long long)seeds, (unsigned long long)steps, (unsigned long long)turns,
              (unsigned long long)nested, (unsigned long long)passes);
  std::printf("%llu models of several replicas, %llu preemptions\n", (unsigned long long)several,
              (unsigned long long)preemptions);
  std::printf("%llu cancels; at rest %llu times\n", (unsigned long long)cancels,
              (unsigned long long)rests);
  std::printf(
      "faults: %llu allocations refused, %llu devices broken, %llu rows spoiled, %llu slow waits\n",
      (unsigned long long)refused, (unsigned long long)broken, (unsigned long long)spoiled,
      (unsigned long long)slow);
  for (int kind = 0; kind < kOpKinds; ++kind) {
    std::printf("%-15s", to_string(OpKind(kind)));
    for (const auto& [outcome, count] : outcomes[size_t(kind)]) {
      std::printf(" %s %llu,", outcome.c_str(), (unsigned long long)count);
    }
    std::printf("\n");
  }
}

bool Tally::is_complete() const {
  bool complete = (host_refused > 0 || !kHostMemoryRefuses) && several > 0 && preemptions > 0 &&
                  refused > 0 && broken > 0 && spoiled > 0 && slow > 0;
  for (const auto& [kind, outcome] : kExpected) {
    if (outcomes[size_t(kind)].contains(outcome)) continue;
    std::printf("never occurred: %s %s\n", to_string(kind), outcome);
    complete = false;
  }
  return complete;
}

}  // namespace tinyloop::sim
