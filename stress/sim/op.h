// One operation of a client's: what it asks for, what has been done to it, how it has ended.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stress/sim/reference.h"
#include "stress/sim/slot.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop::sim {

enum class OpKind : uint8_t {
  generate,
  chunks,
  stream,
  score,
  build_prefix,
  build_resume,
  deepen,
  register_prefix,
  prefix_info,
  release,
  trim,
  drain_replica,
  reload_replica,
  trace,
  load,
  unload,
  shutdown,
};
inline constexpr int kOpKinds = 17;
const char* to_string(OpKind kind);

// Whether it goes through the replica's queue and is counted in Statistics.
inline bool is_request(OpKind kind) {
  return kind <= OpKind::register_prefix;
}
inline bool is_generation(OpKind kind) {
  return kind <= OpKind::stream;
}
inline bool is_build(OpKind kind) {
  return kind >= OpKind::build_prefix && kind <= OpKind::register_prefix;
}

// What was so when an operation was sent; counts to be compared with later ones.
struct Before {
  uint64_t refused = 0;  // allocations
  uint64_t breaks = 0;   // of devices
  uint32_t maintained = 0, reloads = 0;
  size_t fit = 0;            // replicas that served, and were to go on serving
  bool none_serves = false;  // all were being drained, or had been
  bool doubtful = false;     // one was broken and had not noticed, or was being loaded again
  bool failed = false;       // one had failed
  bool all_failed = false;
  bool closing = false, released = false;
};

// What a client keeps of a handle.
struct HandleRecord {
  size_t id = 0;
  Slot* slot = nullptr;
  std::vector<int32_t> tokens{};
  int32_t loops = 1, max_loops = 1, window = 0;
  PrefixCache prefix{};  // one of the two
  ResumeHandle resume{};
  bool released = false;  // a release has been asked for
  Before before{};        // when it was sent for

  bool resumes() const { return bool(resume); }
  bool is_held() const { return bool(prefix) || bool(resume); }
};
using HandleRef = std::shared_ptr<HandleRecord>;

struct PoolRecord {
  size_t id = 0;
  PrefixPool pool{};
  PoolOptions options{};
  std::vector<const Slot*> users{};  // who may have been the first to register or ask
  std::vector<int32_t> depths{};     // at which prefixes have been registered
};
using PoolRecordRef = std::shared_ptr<PoolRecord>;

struct Op {
  size_t id = 0;
  OpKind kind = OpKind::generate;
  Slot* slot = nullptr;

  // What it asks for. `tokens` is all of the prompt, a handle's included.
  std::vector<int32_t> tokens{};
  int32_t base_positions = 0, base_loops = 0;  // what a handle brings, and how deep it is carried
  int32_t loops = 1, window = 0, max_tokens = 0, max_loops = 1;
  Choosing choosing{};
  std::vector<std::vector<int32_t>> stops{};
  WhenFull when_full = WhenFull::fail;
  int32_t priority = 0;
  std::optional<TimePoint> deadline{};
  HandleRef handle{};
  PoolRecordRef pool{};
  bool breaks_bound = false;        // must be invalid_argument
  bool mismatched = false;          // names a prefix at another depth
  bool foreign = false;             // names a handle of another model
  bool beside_maintenance = false;  // another drain or reload of its replica was under way
  bool on_strand = false;           // its handler's executor is not simply the io_context

  // What was so when it was sent.
  TimePoint submitted{};
  Before before{};

  // What has happened to it.
  boost::asio::cancellation_signal signal{};
  bool initiated = false;  // the initiating call has returned
  bool cancelled = false;
  std::vector<size_t> cancel_turns{};  // of each replica, that were under way or over
  int completions = 0;
  std::vector<int32_t> got{};  // what chunks have brought
  bool ended = false;          // a chunk with a summary, an error, or the result

  // A stream's.
  TokenStream stream{};
  bool busy = false;     // a client is in the midst of a call with it
  bool reading = false;  // an async_next is outstanding
  bool dropped = false;
  std::unique_ptr<boost::asio::cancellation_signal> read_signal{};
  bool read_cancelled = false;
  bool aborted_unseen = false;  // the request may have ended together with a cancelled read

  bool is_open() const { return initiated && !ended && !dropped; }
};

}  // namespace tinyloop::sim
