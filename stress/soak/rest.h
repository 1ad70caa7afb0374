// A moment of rest: everybody has given up all they hold, so nothing may be left; and what the
// process takes, for the line that must be flat.
#pragma once

#include <cstddef>
#include <vector>

#include "stress/soak/world.h"

namespace tinyloop::soak {

// Bytes that the process has resident, and that its heap has handed out; 0: not known here.
struct ProcessMemory {
  size_t resident = 0;
  size_t heap = 0;
};
ProcessMemory process_memory();
// Whether a sanitizer keeps memory of its own, or the program's that was freed: then what is
// resident says nothing.
bool is_sanitized();

// What the model itself holds, but for the logits, which come with the first request after a load,
// and work space, which grows with the batches on a GPU.
size_t idle_bytes(const Model& model);

// Checks the model, while every client has met and holds nothing. `model_bytes`: idle_bytes() at
// the start.
void check_at_rest(World& world, size_t model_bytes);

// Whether the values, taken one after another, do not rise: the mean of the last third is not above
// that of the middle third by more than `slack`.
bool is_flat(const std::vector<size_t>& values, size_t slack);

}  // namespace tinyloop::soak
