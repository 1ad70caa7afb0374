// Results of requests as JSON; README.md shows the forms.
#pragma once

#include "output.h"
#include "tinyloop/generate.h"

namespace tinyloop::cli {

Json timings_json(const Timings& timings);
Json generate_json(const GenerateResult& result);
Json chunk_json(const StreamChunk& chunk);

}  // namespace tinyloop::cli
