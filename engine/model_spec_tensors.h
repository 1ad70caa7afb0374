// The tensor part of read_model_spec. Throws base::Failure as described there.
#pragma once

#include "engine/model_spec.h"

namespace tinyloop::engine {

// Finds and checks every tensor that `spec`'s metadata call for, and refuses all others.
ModelTensors resolve_tensors(const GgufFile& file, const ModelSpec& spec);

}  // namespace tinyloop::engine
