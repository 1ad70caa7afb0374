// All that uses the engine in a simulation: it sends requests, keeps handles, reads streams,
// cancels, drops and unloads, at any moment, and judges every answer.
#pragma once

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/strand.hpp>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "actors/engine_state.h"
#include "stress/sim/judge.h"
#include "stress/sim/op.h"
#include "stress/sim/scheduler.h"
#include "stress/sim/tally.h"

namespace tinyloop::sim {

class Clients {
 public:
  Clients(Scheduler& scheduler, Tally& tally);

  // ---- What a client may do next ---------------------------------------------------------------
  // One of the actions, by chance. False: it found nothing to act on.
  bool act();
  // From now on: no new requests.
  void stop_sending() { sending_ = false; }

  // ---- Models (loads.cc) ----------------------------------------------------------------------
  bool load();
  bool unload(Slot& slot, ShutdownMode mode);
  bool shutdown(ShutdownMode mode);
  bool drop_model();
  void close_engine();  // as ~Engine does

  // ---- The end (endings.cc) --------------------------------------------------------------------
  bool drop_everything();  // false: nobody had anything
  bool read_all();
  void drop_engine();
  void trim_all();
  void unload_all();
  // What holds whenever nothing can move.
  void check_at_rest();
  // What holds once everything has been dropped.
  void check_all_ended();
  // What holds once it has been trimmed, too.
  void check_nothing_held();
  // What holds when all of it is over.
  void check_over();

  // The most turns that all that has been sent can take.
  size_t most_turns() const;
  std::deque<Slot>& slots() { return slots_; }

 private:
  struct Action {
    const char* name;
    bool (Clients::*run)();
    size_t weight;
    bool sends;  // new work
  };
  static const std::vector<Action>& actions();
  bool act(const Action& action);

  // ---- Requests (requests.cc) ------------------------------------------------------------------
  bool generate();
  bool generate_in_chunks();
  bool score();
  bool build_prefix();
  bool build_resume();
  bool deepen();
  bool register_prefix();
  bool prefix_info();
  bool release();
  bool trim();
  Op* new_op(OpKind kind, Slot& slot);
  Before look(const Slot& slot) const;
  void begin_call(Op& op);
  void end_call(Op& op);

  // ---- What they ask for (draws.cc) ------------------------------------------------------------
  GenerateRequest draw_generation(Op& op);
  ScoreRequest draw_score(Op& op);
  PrefixRequest draw_prefix(Op& op);
  void draw_handle(Op& op, GenerateRequest& request);
  void break_bound(Op& op, GenerateRequest& request);
  template <class Request>
  Request draw_text(Op& op);
  void draw_terms(Op& op);
  std::vector<int32_t> draw_tokens();

  // ---- Streams (streams.cc) --------------------------------------------------------------------
  bool open_stream();
  bool read_stream();
  bool cancel_read();
  bool cancel_stream();
  bool drop_stream();
  bool read(Op& op);
  void drop(Op& op);
  void take_chunk(Op& op, const error_code& error, const StreamChunk& chunk);
  Op* some_stream(bool (*fits)(const Op&));

  // ---- What is done to them (control.cc) -------------------------------------------------------
  void note_cancel(Op& op);
  bool cancel();
  bool drop_handle();
  bool drop_pool();
  bool make_pool();
  bool ask_reports();
  bool arm_fault();
  bool unload_some();
  bool shutdown_some();

  // ---- Replicas (maintenance.cc) ---------------------------------------------------------------
  bool drain_replica();
  bool reload_replica();
  bool ask_trace();
  bool maintain(Slot& slot, OpKind kind);
  void completed_maintenance(Op& op, size_t which, const error_code& error);

  // ---- What must hold (endings.cc) -------------------------------------------------------------
  void check_waiting(const Slot& slot, const std::vector<const Op*>& waiting,
                     const std::vector<const Op*>& unread) const;
  void check_counts(const Slot& slot, size_t waiting, size_t unread) const;
  void check_health(const Slot& slot, const HealthReport& health) const;
  size_t reserved_by_handles(const Slot& slot) const;
  void check_memory(const Slot& slot, bool held) const;

  // ---- Answers ---------------------------------------------------------------------------------
  Circumstances now() const;
  void complete(Op& op, const error_code& error, const std::string& outcome);
  void completed_generation(Op& op, const error_code& error, const GenerateResult& result);
  template <class Kind>
  void completed_build(Op& op, const error_code& error, Kind handle);

  // The handler of an operation, with its executor and its cancellation slot.
  template <class Handler>
  auto bound(Op& op, Handler handler) {
    return bound_to(op, op.signal.slot(), std::move(handler));
  }
  // The same for an async_next, which is cancelled by itself.
  template <class Handler>
  auto bound_read(Op& op, boost::asio::cancellation_signal* signal, Handler handler) {
    return bound_to(op, signal ? signal->slot() : boost::asio::cancellation_slot(),
                    std::move(handler));
  }
  template <class Handler>
  auto bound_to(Op& op, boost::asio::cancellation_slot slot, Handler handler) {
    using boost::asio::any_io_executor;
    const any_io_executor to = op.on_strand
                                   ? any_io_executor(boost::asio::make_strand(scheduler_.io()))
                                   : any_io_executor(scheduler_.io().get_executor());
    return boost::asio::bind_executor(
        to, boost::asio::bind_cancellation_slot(slot, std::move(handler)));
  }

  Slot* some_slot();
  Copy& copy_of(const std::string& device);
  HandleRef some_handle();
  // Of this model's or nobody's so far, as a rule.
  PoolRecordRef some_pool(const Slot& slot);
  void trace_op(const Op& op, const std::string& what) const;
  bool is_active(const Slot& slot) const;

  Scheduler& scheduler_;
  Tally& tally_;
  Random& random_;
  std::array<size_t, 32> weights_{};  // of the actions
  size_t total_weight_ = 0;
  bool sending_ = true;
  bool host_lacks_ = false;                    // the host refuses memory at times
  std::vector<std::vector<int32_t>> stories_;  // that prompts begin with

  std::shared_ptr<actors::EngineState> engine_;
  bool engine_closed_ = false, engine_cancels_ = false;
  std::deque<Slot> slots_;
  std::deque<std::unique_ptr<Op>> ops_;
  std::vector<HandleRef> handles_;
  std::vector<PoolRecordRef> pools_;
  size_t made_ = 0;  // operations, handles, pools
};

}  // namespace tinyloop::sim
