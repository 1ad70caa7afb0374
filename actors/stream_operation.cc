#include "actors/stream_operation.h"

#include <new>
#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

using NextCompletion = detail::Completion<StreamChunk>;

StreamOperation::StreamOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                                 Terms how)
    : Operation(std::move(inbox), std::move(checked), how),
      buffer_(size_t(request.config.max_tokens), request.config.logprobs) {}

void StreamOperation::next(NextCompletion completion) {
  if (!reader_.claim()) {
    return completion.post(make_error(errc::stream_busy, "an async_next is outstanding"), {});
  }
  const HandOver::Wait wait = reader_.next_wait(buffer_.taken());
  try {
    set_address(completion.executor());
    let_cancel_next(completion.slot(), wait);
  } catch (...) {
    reader_.release();
    return completion.post(make_error(current_error("async_next")), {});
  }
  reader_.offer(std::move(completion), wait);
  serve_reader(OnThread::callers);
}

void StreamOperation::let_cancel_next(boost::asio::cancellation_slot slot, HandOver::Wait wait) {
  if (!slot.is_connected()) return;
  slot.assign([self = boost::intrusive_ptr<StreamOperation>(this),
               wait](boost::asio::cancellation_type type) {
    if (type == boost::asio::cancellation_type::none) return;
    if (auto completion = self->reader_.take(wait)) self->abort(std::move(completion));
  });
}

void StreamOperation::abort(NextCompletion completion) noexcept {
  answer(std::move(completion), make_error(errc::operation_aborted, {}), OnThread::callers);
}

void StreamOperation::abandon() noexcept {
  if (!is_handled()) request_cancel();
  if (auto completion = reader_.take()) abort(std::move(completion));
}

void StreamOperation::take_token(int32_t token, std::string_view text,
                                 const PositionLogprobs* logprobs) {
  buffer_.push(token, text, logprobs);
  ++generated_;
  serve_reader(OnThread::replicas);
}

void StreamOperation::deliver(OnThread thread) noexcept {
  buffer_.finish(outcome.error, {outcome.reason, prompt_tokens_, generated_, loops_, timings()});
  serve_reader(thread);
}

// Both sides call this: the writer after it has published, the reader after it has offered.
void StreamOperation::serve_reader(OnThread thread) noexcept {
  const HandOver::Wait wait = reader_.waiting();
  if (!wait || !buffer_.has_more(wait.taken())) return;
  if (auto completion = reader_.take(wait)) answer(std::move(completion), {}, thread);
}

void StreamOperation::answer(NextCompletion completion, error_code error,
                             OnThread thread) noexcept {
  answer_ = std::move(completion);
  answer_error_ = error;
  send(thread);
}

// The chunk is put together here, not on the replica's thread: nothing is allocated there, and
// tokens that have come in the meantime are in it, too.
void StreamOperation::open() {
  auto completion = std::move(answer_);
  StreamBuffer::Read result{answer_error_, {}};
  try {
    if (!answer_error_) result = buffer_.read();
  } catch (const std::bad_alloc&) {
    result = {make_error(errc::out_of_memory, "no host memory for a stream's chunk"), {}};
  }
  if (buffer_.end_taken()) set_handled();
  reader_.release();
  completion.invoke(result.error, std::move(result.chunk));
}

// An executor that dies without running the handler must not leave the stream busy for ever.
void StreamOperation::lose() noexcept {
  const auto lost = std::move(answer_);
  reader_.release();
}

}  // namespace tinyloop::actors
