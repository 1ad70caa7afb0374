// A place for a model: the file, its options, the simulated device under it, and what has been
// asked of it.
#pragma once

#include <cstdint>
#include <vector>

#include "stress/sim/device.h"
#include "stress/sim/models.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop::sim {

struct LoopRecord;

// When a request began, and when it was sent: who came later must not begin before.
struct Begin {
  size_t op = 0;
  TimePoint submitted{}, begun{};
  bool holds = false;  // a prefix: then it may pass others that wait for budget
  int32_t priority = 0;
};

struct Slot {
  size_t index = 0;
  size_t file = 0;  // of sim_models()
  ModelOptions options{};
  Device device{};
  const LoopRecord* loop = nullptr;  // once its backend has been made
  Model model{};                     // empty: not loaded, or dropped
  bool loaded = false;
  bool load_over = false;
  // What has been asked for.
  bool drains = false, cancels = false;
  bool closed = false;  // an unload has completed
  uint64_t requests = 0;
  uint64_t preemptions = 0;     // when it was last asked
  bool keeps_prefixes = false;  // has been asked to: they may come to hold what others need
  std::vector<Begin> begins{};

  bool closing() const { return drains || cancels; }
  size_t turns() const;
  const SimModel& sim() const { return sim_models()[file]; }

  // Bytes of K/V pages for 16 positions at a depth.
  size_t place_bytes(int32_t loops) const;
};

}  // namespace tinyloop::sim
