// Which replica of a model runs where.
#pragma once

#include <vector>

#include "base/error.h"
#include "tinyloop/options.h"

namespace tinyloop::actors {

// The options of each replica: one device, and its share of the CPU's cores. Errors:
// invalid_argument, where an entry of `device` is empty.
base::Result<std::vector<ModelOptions>> options_of_replicas(const ModelOptions& options);

}  // namespace tinyloop::actors
