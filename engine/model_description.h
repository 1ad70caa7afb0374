// A model file explained to someone who has never seen it: what `tinyloop inspect` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/model_spec.h"

namespace tinyloop::engine {

// Lines of "label  value", each ended by a newline. `with_tensors` adds one line per tensor with
// its type, shape and bytes.
std::string describe_model(const GgufFile& file, const ModelSpec& spec, bool with_tensors = false);

// The same as an object; numbers are plain, sizes in bytes.
nlohmann::ordered_json model_description_json(const GgufFile& file, const ModelSpec& spec,
                                              bool with_tensors = false);

}  // namespace tinyloop::engine
