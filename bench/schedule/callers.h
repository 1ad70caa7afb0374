// Callers that keep a replica busy, and what they get out of it.
#pragma once

#include <cstdint>

#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {

// Each caller sends its next request when the last one has completed, until `requests` have been
// sent in all. Depths are uniform on shallowest … deepest, the same ones for the same seed.
struct CallersLoad {
  int32_t callers = 64;
  int32_t requests = 640;
  int32_t prompt = 16;
  int32_t tokens = 48;
  int32_t shallowest = 1;
  int32_t deepest = 8;
  uint32_t seed = 1;
};

// New tokens a second while all callers are busy: between the completion of a fifth of the requests
// and that of four fifths.
double callers_tokens_per_s(const Model& model, const CallersLoad& load);

// The same of `callers` requests of one depth that begin at random times within `spread_us`: from
// when all have begun until the first ends. 0: they begin together.
double arrivals_tokens_per_s(const Model& model, const CallersLoad& load, double spread_us);

}  // namespace tinyloop::bench
