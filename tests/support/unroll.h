// A looped model written out as the plain model that computes the same at one depth.
#pragma once

#include <memory>
#include <string>

#include "tests/support/gguf_writer.h"

namespace tinyloop::testing {

// The `llama` file of prelude + iterations · shared + coda layers, the tensors' bytes copied.
// Throws std::invalid_argument for what `llama` files cannot say: an injection, a loop norm,
// another initial state, relu2, post or q/k norms, an embedding scale, a softcap, no output norm.
std::shared_ptr<const TempFile> write_unrolled(const std::string& looped_path, int32_t iterations);

}  // namespace tinyloop::testing
