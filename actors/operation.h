// A request on its way through a replica: the message in the mailbox, the entry of the queue, the
// engine's client, the one place where its outcome is decided, and the parcel that carries it home.
#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "actors/cancel_counts.h"
#include "actors/lane.h"
#include "actors/lease.h"
#include "actors/parcel.h"
#include "actors/pool_use.h"
#include "engine/batch_engine.h"
#include "engine/sequence_client.h"
#include "tinyloop/error.h"
#include "tinyloop/trace.h"

namespace tinyloop::actors {

class Inbox;

// What a token's text usually needs; rooms for text are taken by it.
inline constexpr size_t kUsualTokenBytes = 8;

struct CancelLane;  // tags of the lanes an operation may be in
struct WaitingLane;

// Where an operation is. Set by whoever holds it: the caller's thread until it is sent, the
// replica's thread from then on. A cancel of one that could not be sent may ask meanwhile.
enum class Phase : uint8_t {
  sent,    // in the mailbox, not looked at yet
  queued,  // accepted, waiting for its turn
  begun,   // admitted to the engine
  ended,   // has its outcome
};

// Who calls: a replica's thread must not allocate, so what it sends goes by the courier.
enum class OnThread : uint8_t { callers, replicas };

// How it ended: an error, or a reason.
struct Outcome {
  error_code error;
  FinishReason reason = FinishReason::max_tokens;
};

class Operation : public Parcel,
                  public engine::SequenceClient,
                  public LaneNode<CancelLane>,
                  public LaneNode<WaitingLane>,
                  public boost::intrusive::list_base_hook<> {
 public:
  struct Terms {
    std::optional<TimePoint> deadline;
    WhenFull when_full = WhenFull::fail;
  };

  Operation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms terms);

  // Any thread. Never fails; a second or a late call does nothing.
  void request_cancel() noexcept;
  bool cancel_requested() const noexcept { return cancel_requested_.load(); }

  const Terms terms;

  // The prefix that the request begins with, if any: from before it is sent until its end.
  LeaseRef base;
  PoolUse pool;
  // Replica thread. `request` is moved into the engine at the begin.
  engine::SequenceRequest request;
  std::atomic<Phase> phase = Phase::sent;
  bool reserved = false;      // K/V budget is promised to it
  engine::SequenceId id = 0;  // once begun
  Outcome outcome;            // once ended
  // A cancel has reached it. Counts where, the first time.
  void cancel_reached() noexcept;

  bool is_past_deadline(TimePoint now) const noexcept {
    return terms.deadline && *terms.deadline <= now;
  }
  // The outcome is final: output that was lost for want of memory is in it.
  void end(Outcome how) noexcept;
  // After end(): hands the outcome to the caller. Calls deliver() once, whatever calls this.
  void complete(OnThread thread) noexcept;

  // engine::SequenceClient
  void on_begin() noexcept override;
  void on_score(float) noexcept override {}
  void on_token(int32_t token, std::string_view text,
                const PositionLogprobs* logprobs) noexcept override;
  void on_pass(const engine::ChunkStep& chunk) noexcept override;
  void on_prefix(engine::PrefixId made) noexcept override { pool.kept = made; }
  void on_unkept() noexcept override { pool.unkept = true; }
  void on_finished(FinishReason reason, std::string_view text) noexcept override;
  void on_failed(const base::Error& error) noexcept override;

 protected:
  // A sampled token, and the text at the end. May throw: the request is then cut short and ends
  // with out_of_memory or internal.
  virtual void take_token(int32_t token, std::string_view text, const PositionLogprobs* logprobs);
  virtual void take_text(std::string_view text);
  virtual void deliver(OnThread thread) noexcept = 0;

  // Sends it, as a parcel, to the executor of its handler.
  void send(OnThread thread) noexcept;
  // The handler is about to run: for whom cancels come too late.
  void set_handled() noexcept { handled_.store(true); }
  bool is_handled() const noexcept { return handled_.load(); }

  Timings timings() const noexcept;
  // The error of what is worth nothing unless it is whole, as a prefix is: there a cut is an error.
  error_code whole_or_error() const;

  const int32_t loops_;
  const size_t prompt_tokens_;

 private:
  TimePoint now() const noexcept;
  CancelPhase cancel_phase() const noexcept;
  CancelPhase late_phase() const noexcept;
  void count_cancel(CancelPhase phase) noexcept;
  template <class Take>
  void guarded(Take&& take) noexcept;
  void trace(TraceEvent event) noexcept;
  void trace_phase(TraceKind kind, TimePoint begin, TimePoint end) noexcept;
  void trace_end() noexcept;

  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> cancel_requested_{false};
  std::atomic<bool> completed_{false};
  std::atomic<bool> handled_{false};
  std::atomic<bool> cancel_counted_{false};
  errc output_error_ = errc::ok;  // why output was lost
  const TimePoint submitted_;
  std::optional<TimePoint> begun_, first_token_, last_event_;
  int32_t sampled_ = 0;        // tokens
  uint64_t trace_number_ = 0;  // in the replica's trace; 0: it is not there yet
};

using OperationPtr = boost::intrusive_ptr<Operation>;
using OperationList = boost::intrusive::list<Operation, boost::intrusive::constant_time_size<true>>;

}  // namespace tinyloop::actors
