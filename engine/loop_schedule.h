// Which layer runs when, and which cache slot each executed layer owns.
//
// A token runs the prelude layers once, the shared layers `loops` times, the coda layers once. Each
// executed attention layer has a slot of its own:
//   prelude layer p             → p
//   coda layer c                → prelude + c
//   shared layer l, iteration i → prelude + coda + i · shared + l
// so that a greater depth appends slots and moves none. Pages hold one slot group each: group 0 is
// prelude and coda together, group 1 + i the shared layers of iteration i.
#pragma once

#include <cstdint>

namespace tinyloop::engine {

struct LoopSchedule {
  int32_t prelude = 0;
  int32_t shared = 0;
  int32_t coda = 0;

  int32_t outer_layers() const { return prelude + coda; }
  int32_t slots(int32_t loops) const { return outer_layers() + loops * shared; }

  // Places of the layers within a page of their group; those of group 0 are the slots themselves.
  int32_t prelude_place(int32_t layer) const { return layer; }
  int32_t coda_place(int32_t layer) const { return prelude + layer; }
  int32_t shared_place(int32_t layer) const { return layer; }
};

}  // namespace tinyloop::engine
