#include "stress/sim/slot.h"

#include <algorithm>

#include "stress/sim/scheduler.h"

namespace tinyloop::sim {

namespace {

template <class Count>
auto sum(const std::deque<Copy>& copies, Count count) {
  decltype(count(copies.front())) all = 0;
  for (const Copy& copy : copies) all += count(copy);
  return all;
}

}  // namespace

uint64_t Copy::host_refused() const {
  return loop ? loop->refused : 0;
}

bool Copy::is_doubtful() const {
  return device.broken || maintaining > 0 || (host_refused() > 0 && loop->running);
}

size_t Copy::turns() const {
  return loop ? loop->starts.size() : 0;
}

uint64_t Slot::refused() const {
  return sum(copies, [](const Copy& copy) { return copy.device.refused + copy.host_refused(); });
}
uint64_t Slot::spoiled() const {
  return sum(copies, [](const Copy& copy) { return copy.device.spoiled; });
}
uint64_t Slot::breaks() const {
  return sum(copies, [](const Copy& copy) { return copy.device.breaks + copy.host_refused(); });
}
uint32_t Slot::reloads() const {
  return sum(copies, [](const Copy& copy) { return copy.reloads; });
}
uint32_t Slot::maintained() const {
  return sum(copies, [](const Copy& copy) { return copy.drains + copy.reloads; });
}

bool Slot::all_alive() const {
  return std::all_of(copies.begin(), copies.end(), [](const Copy& c) { return c.device.alive; });
}
bool Slot::is_empty() const {
  return std::all_of(copies.begin(), copies.end(),
                     [](const Copy& c) { return c.device.is_empty(); });
}
bool Slot::all_broken() const {
  return std::all_of(copies.begin(), copies.end(), [](const Copy& c) { return c.device.broken; });
}

size_t Slot::place_bytes(int32_t loops) const {
  const testing::ModelShape& shape = sim().shape();
  return size_t(shape.prelude + shape.coda + shape.shared * loops) * device().layer_bytes;
}

}  // namespace tinyloop::sim
