// A place for a model: the file, its options, its replicas on their simulated devices, and what has
// been asked of it.
#pragma once

#include <cstdint>
#include <deque>
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

// One replica of a model.
struct Copy {
  Device device{};
  const LoopRecord* loop = nullptr;  // once its backend has been made
  // Of drains and reloads: how many are under way, and how many have been asked for.
  uint32_t maintaining = 0;
  uint32_t drains = 0, reloads = 0;

  size_t turns() const;
  uint64_t host_refused() const;  // allocations
  bool is_doubtful() const;       // it may be about to fail
};

struct Slot {
  size_t index = 0;
  size_t file = 0;  // of sim_models()
  ModelOptions options{};
  std::deque<Copy> copies{};  // their number is settled before the load
  Model model{};              // empty: not loaded, or dropped
  bool loaded = false;
  bool load_over = false;
  // What has been asked for.
  bool drains = false, cancels = false;
  bool closed = false;  // an unload has completed
  uint64_t requests = 0;
  uint64_t preemptions = 0;     // when it was last asked
  bool keeps_prefixes = false;  // has been asked to: they may come to hold what others need
  std::vector<Begin> begins{};  // of a model of one replica

  bool closing() const { return drains || cancels; }
  const SimModel& sim() const { return sim_models()[file]; }
  const Device& device() const { return copies.front().device; }  // all are of one kind

  // Over all replicas.
  uint64_t refused() const;  // allocations, of devices and host
  uint64_t spoiled() const;
  uint64_t breaks() const;  // of devices; and want of the host's memory may end a replica, too
  uint32_t reloads() const;
  uint32_t maintained() const;  // drains and reloads
  bool all_alive() const;
  bool is_empty() const;  // every device has everything back
  bool all_broken() const;

  // Bytes of K/V pages for 16 positions at a depth.
  size_t place_bytes(int32_t loops) const;
};

}  // namespace tinyloop::sim
