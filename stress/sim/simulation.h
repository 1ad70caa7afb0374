// One simulation: what its seed makes of an engine's life, from the load to the last byte.
#pragma once

#include <cstdint>

#include "stress/sim/tally.h"

namespace tinyloop::sim {

void simulate(uint64_t seed, size_t steps, Tally& tally);

}  // namespace tinyloop::sim
