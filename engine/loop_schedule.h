// Which layer runs when, and which cache slot each executed layer owns.
//
// A token runs the prelude layers once, the shared layers `loops` times, the coda layers once. Each
// executed attention layer has a slot of its own:
//   prelude layer p             → p
//   coda layer c                → prelude + c
//   shared layer l, iteration i → prelude + coda + i · shared + l
// so that a greater depth appends slots and moves none. Pages hold one slot group each
// (engine/kv_cache.h); a layer's place within its group's pages is its own number.
#pragma once

#include <cstdint>

namespace tinyloop::engine {

struct LoopSchedule {
  int32_t prelude = 0;
  int32_t shared = 0;
  int32_t coda = 0;

  int32_t outer_layers() const { return prelude + coda; }
  int32_t slots(int32_t loops) const { return outer_layers() + loops * shared; }
};

}  // namespace tinyloop::engine
