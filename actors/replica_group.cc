#include "actors/replica_group.h"

#include <algorithm>
#include <utility>

namespace tinyloop::actors {

namespace {

// Runs a callback when its last holder lets go.
class LastOne {
 public:
  explicit LastOne(ClosedLatch::Callback run) : callback_(std::move(run)) {}
  ~LastOne() { callback_(); }
  LastOne(const LastOne&) = delete;
  LastOne& operator=(const LastOne&) = delete;

 private:
  ClosedLatch::Callback callback_;
};

void add(MemoryReport& sum, const MemoryReport& more) {
  for (const auto field :
       {&MemoryReport::weights, &MemoryReport::fp16_weight_cache, &MemoryReport::buffers,
        &MemoryReport::workspace, &MemoryReport::arena, &MemoryReport::handles,
        &MemoryReport::pages_used, &MemoryReport::pages_free, &MemoryReport::page_bytes_used,
        &MemoryReport::page_bytes_free, &MemoryReport::cache_budget,
        &MemoryReport::cache_reserved}) {
    sum.*field += more.*field;
  }
  for (const MemoryReport::Buffer& buffer : more.buffer_list) {
    const auto same = std::find_if(sum.buffer_list.begin(), sum.buffer_list.end(),
                                   [&](const auto& each) { return each.name == buffer.name; });
    if (same == sum.buffer_list.end()) {
      sum.buffer_list.push_back(buffer);
    } else {
      same->rows += buffer.rows;
      same->bytes += buffer.bytes;
    }
  }
}

void add(Statistics& sum, const Statistics& more) {
  for (const auto field :
       {&Statistics::accepted, &Statistics::rejected, &Statistics::completed_ok,
        &Statistics::completed_cancelled, &Statistics::completed_deadline,
        &Statistics::completed_failed, &Statistics::passes, &Statistics::block_rows,
        &Statistics::prompt_tokens, &Statistics::generated_tokens, &Statistics::preemptions,
        &Statistics::saturated_values, &Statistics::device_launches}) {
    sum.*field += more.*field;
  }
}

// How soon a replica will take a request up: the smaller, the sooner; 2: not at all.
int readiness(const Replica& replica) noexcept {
  switch (replica.state()) {
    case ReplicaState::serving:
      return 0;
    case ReplicaState::loading:
      return 1;
    default:
      return 2;
  }
}

}  // namespace

Replica* ReplicaGroup::find(const std::shared_ptr<Inbox>& inbox) const noexcept {
  for (const ReplicaRef& replica : replicas_)
    if (replica->inbox() == inbox) return replica.get();
  return nullptr;
}

Incoming ReplicaGroup::enter() const noexcept {
  for (;;) {
    Replica* const best = least_loaded(kAll);
    Incoming way(best ? *best : *replicas_.front());
    // It may have been drained just before it could know of us.
    if (!best || way.is_let_in()) return way;
  }
}

Replica* ReplicaGroup::least_loaded(uint64_t which) const noexcept {
  Replica* best = nullptr;
  std::pair<int, size_t> least{2, 0};
  const size_t first = size() > 1 ? turn_.fetch_add(1, std::memory_order_relaxed) : 0;
  for (size_t i = 0; i < size(); ++i) {
    const size_t index = (first + i) % size();
    Replica& replica = *replicas_[index];
    const std::pair<int, size_t> here{readiness(replica), replica.requests()};
    if ((which >> index & 1) == 0 || here.first == 2) continue;
    if (best && here >= least) continue;
    best = &replica;
    least = here;
  }
  return best;
}

void ReplicaGroup::request_close(ShutdownMode mode) const noexcept {
  for (const ReplicaRef& replica : replicas_) replica->request_close(mode);
}

void ReplicaGroup::when_closed(ClosedLatch::Callback callback) const {
  const auto last = std::make_shared<LastOne>(std::move(callback));
  for (const ReplicaRef& replica : replicas_) replica->when_closed([last] {});
}

MemoryReport ReplicaGroup::memory() const {
  MemoryReport sum;
  for (const ReplicaRef& replica : replicas_) add(sum, replica->memory());
  return sum;
}

HealthReport ReplicaGroup::health() const {
  HealthReport report{{}, kernels::cuda_status()};
  for (const ReplicaRef& replica : replicas_) report.replicas.push_back(replica->health());
  return report;
}

Statistics ReplicaGroup::statistics() const {
  Statistics sum;
  for (const ReplicaRef& replica : replicas_) add(sum, replica->statistics());
  return sum;
}

std::vector<Metrics> ReplicaGroup::metrics() const {
  std::vector<Metrics> each;
  for (const ReplicaRef& replica : replicas_) each.push_back(replica->metrics());
  return each;
}

}  // namespace tinyloop::actors
