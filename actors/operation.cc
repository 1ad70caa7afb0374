#include "actors/operation.h"

#include <new>
#include <utility>

#include "actors/error.h"
#include "actors/inbox.h"

namespace tinyloop::actors {

namespace {

double microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

Operation::Operation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how)
    : terms(how),
      request(std::move(checked)),
      loops_(request.loops),
      prompt_tokens_(request.tokens.size()),
      inbox_(std::move(inbox)),
      submitted_(now()) {}

TimePoint Operation::now() const noexcept {
  return (inbox_ ? inbox_->clock : Clock::steady()).now();
}

void Operation::request_cancel() noexcept {
  if (cancel_requested_.exchange(true) || !inbox_) return;
  if (completed_.load() || !inbox_->cancel(*this)) count_cancel(late_phase());
}

void Operation::cancel_reached() noexcept {
  count_cancel(cancel_phase());
}

CancelPhase Operation::cancel_phase() const noexcept {
  switch (phase) {
    case Phase::sent:
    case Phase::queued:
      return CancelPhase::queued;
    case Phase::begun:
      return first_token_ ? CancelPhase::decode : CancelPhase::prefill;
    case Phase::ended:
      break;
  }
  return late_phase();
}

CancelPhase Operation::late_phase() const noexcept {
  return is_handled() ? CancelPhase::done : CancelPhase::completing;
}

// The caller's thread and the replica's may both see the same cancel: the first one counts.
void Operation::count_cancel(CancelPhase where) noexcept {
  if (!cancel_counted_.exchange(true)) inbox_->cancel_counts.count(where);
}

void Operation::end(Outcome how) noexcept {
  phase = Phase::ended;
  outcome = how;
  if (output_error_ != errc::ok && !outcome.error)
    outcome.error = make_error(output_error_, "the request's output could not be recorded");
}

void Operation::complete(OnThread thread) noexcept {
  if (completed_.exchange(true)) return;
  if (thread == OnThread::replicas) trace_end();
  deliver(thread);
}

void Operation::send(OnThread thread) noexcept {
  if (thread == OnThread::replicas && inbox_ && inbox_->courier)
    return inbox_->courier->send(*this);
  post();
}

void Operation::on_begin() noexcept {
  begun_ = last_event_ = now();
  inbox_->distributions.count_queue(*begun_ - submitted_);
  trace_phase(TraceKind::queue, submitted_, *begun_);
}

void Operation::on_token(int32_t token, std::string_view text,
                         const PositionLogprobs* logprobs) noexcept {
  const TimePoint time = now();
  ++sampled_;
  if (first_token_) {
    inbox_->distributions.count_token(time - *last_event_);
  } else {
    first_token_ = time;
    inbox_->distributions.count_first_token(time - submitted_);
    trace_phase(TraceKind::prefill, *begun_, time);
  }
  last_event_ = time;
  guarded([&] { take_token(token, text, logprobs); });
}

void Operation::on_finished(FinishReason reason, std::string_view text) noexcept {
  if (!first_token_) last_event_ = now();
  inbox_->distributions.count_request(*last_event_ - submitted_);
  guarded([&] { take_text(text); });
  end({{}, reason});
}

void Operation::on_failed(const base::Error& error) noexcept {
  last_event_ = now();
  end({make_error(error), FinishReason::max_tokens});
}

error_code Operation::whole_or_error() const {
  if (outcome.error) return outcome.error;
  switch (outcome.reason) {
    case FinishReason::cancelled:
      return make_error(errc::operation_aborted, {});
    case FinishReason::deadline:
      return make_error(errc::deadline_exceeded, "the prefix was not complete at its deadline");
    default:
      return {};
  }
}

void Operation::take_token(int32_t, std::string_view, const PositionLogprobs*) {}

void Operation::take_text(std::string_view) {}

template <class Take>
void Operation::guarded(Take&& take) noexcept {
  if (output_error_ != errc::ok) return;
  try {
    return take();
  } catch (const std::bad_alloc&) {
    output_error_ = errc::out_of_memory;
  } catch (...) {
    output_error_ = errc::internal;
  }
  request_cancel();
}

Timings Operation::timings() const noexcept {
  const TimePoint last = last_event_.value_or(now());
  const TimePoint begun = begun_.value_or(last);
  const TimePoint first = first_token_.value_or(last);
  return {microseconds(begun - submitted_), microseconds(first - begun),
          microseconds(last - first)};
}

}  // namespace tinyloop::actors
