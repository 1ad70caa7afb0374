#include "actors/counters.h"

namespace tinyloop::actors {

void Counters::count_rejected(const error_code& error) noexcept {
  ++rejected_;
  switch (errc_of(error)) {
    case errc::invalid_argument:
    case errc::wrong_model:
    case errc::loop_mismatch:
    case errc::handle_lost:
      ++invalid_;
      return;
    case errc::overloaded:
      ++overloaded_;
      return;
    case errc::out_of_memory:
      ++too_large_;
      ++out_of_memory_;
      return;
    case errc::shutdown:
    case errc::model_closed:
    case errc::replica_failed:
      ++closed_;
      return;
    default:
      ++other_;
      return;
  }
}

void Counters::count_lookup(int32_t positions) noexcept {
  ++(positions > 0 ? hits_ : misses_);
  tokens_saved_ += uint64_t(positions);
}

Rejections Counters::rejections() const noexcept {
  return {.invalid = invalid_,
          .overloaded = overloaded_,
          .out_of_memory = too_large_,
          .closed = closed_,
          .other = other_};
}

void Counters::count_completed(const Outcome& outcome) noexcept {
  switch (errc_of(outcome.error)) {
    case errc::ok:
      break;
    case errc::operation_aborted:
    case errc::shutdown:
      ++cancelled_;
      return;
    case errc::deadline_exceeded:
      ++deadline_;
      return;
    case errc::out_of_memory:
      ++out_of_memory_;
      [[fallthrough]];
    default:
      ++failed_;
      return;
  }
  switch (outcome.reason) {
    case FinishReason::cancelled:
      ++cancelled_;
      return;
    case FinishReason::deadline:
      ++deadline_;
      return;
    case FinishReason::all_masked:
      ++failed_;
      return;
    case FinishReason::eos:
    case FinishReason::stop_sequence:
    case FinishReason::max_tokens:
      ++ok_;
      return;
  }
}

void Counters::count_step(const engine::StepOutcome& step) noexcept {
  passes_ += uint64_t(step.passes);
  block_rows_ += uint64_t(step.block_rows);
  prompt_tokens_ += uint64_t(step.prompt_rows);
  generated_tokens_ += uint64_t(step.generated_tokens);
  preemptions_ += uint64_t(step.preemptions);
}

Statistics Counters::snapshot() const noexcept {
  return {.accepted = accepted_,
          .rejected = rejected_,
          .completed_ok = ok_,
          .completed_cancelled = cancelled_,
          .completed_deadline = deadline_,
          .completed_failed = failed_,
          .passes = passes_,
          .block_rows = block_rows_,
          .prompt_tokens = prompt_tokens_,
          .generated_tokens = generated_tokens_,
          .preemptions = preemptions_};
}

}  // namespace tinyloop::actors
