// The order in which a replica serves its requests.
#pragma once

#include <cstdint>

namespace tinyloop::engine {

// How many places each step of priority brings a request forward. Whoever came before a request by
// more than that many places a step goes before it all the same: so the most important requests can
// hold up the least important one for no more than 2 · kMaxPriority · kPriorityLead places.
inline constexpr int64_t kPriorityLead = 64;

// The smaller one goes first; equal ones in the order in which they came.
constexpr int64_t rank(uint64_t arrival, int32_t priority) {
  return int64_t(arrival) - kPriorityLead * priority;
}

}  // namespace tinyloop::engine
