#include "actors/stream_operation.h"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

using NextCompletion = detail::Completion<StreamChunk>;

// What is posted to the reader's executor. The chunk is put together there, not on the replica's
// thread: nothing is allocated there, and tokens that come in the meantime are in it too.
class StreamOperation::Delivery {
 public:
  Delivery(StreamOperation& stream, NextCompletion completion, error_code error)
      : stream_(&stream), completion_(std::move(completion)), error_(error) {}
  Delivery(Delivery&&) noexcept = default;
  Delivery& operator=(Delivery&&) = delete;
  // An executor that dies without running it must not leave the stream busy for ever.
  ~Delivery() { release(); }

  void operator()() {
    StreamBuffer::Read result{error_, {}};
    try {
      if (!error_) result = stream_->buffer_.read();
    } catch (const std::bad_alloc&) {
      result = {make_error(errc::out_of_memory, "no host memory for a stream's chunk"), {}};
    }
    release();
    completion_.invoke(result.error, std::move(result.chunk));
  }

 private:
  void release() noexcept {
    if (auto stream = std::move(stream_)) stream->reader_.release();
  }

  boost::intrusive_ptr<StreamOperation> stream_;
  NextCompletion completion_;
  error_code error_;
};

StreamOperation::StreamOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                                 Terms how)
    : Operation(std::move(inbox), std::move(checked), how),
      buffer_(size_t(request.config.max_tokens), request.config.logprobs) {}

void StreamOperation::next(NextCompletion completion) {
  if (!reader_.claim()) {
    return completion.post(make_error(errc::stream_busy, "an async_next is outstanding"), {});
  }
  const HandOver::Wait wait = reader_.next_wait(buffer_.taken());
  if (auto slot = completion.slot(); slot.is_connected()) {
    slot.assign([self = boost::intrusive_ptr<StreamOperation>(this),
                 wait](boost::asio::cancellation_type type) {
      if (type != boost::asio::cancellation_type::none) self->cancel_next(wait);
    });
  }
  reader_.offer(std::move(completion), wait);
  serve_reader();
}

void StreamOperation::abandon() noexcept {
  request_cancel();
  if (auto completion = reader_.take()) {
    send(std::move(completion), make_error(errc::operation_aborted, {}));
  }
}

void StreamOperation::take_token(int32_t token, std::string_view text,
                                 const PositionLogprobs* logprobs) {
  buffer_.push(token, text, logprobs);
  ++generated_;
  serve_reader();
}

void StreamOperation::deliver() noexcept {
  buffer_.finish(outcome.error, {outcome.reason, prompt_tokens_, generated_, loops_, timings()});
  serve_reader();
}

void StreamOperation::cancel_next(HandOver::Wait wait) noexcept {
  if (auto completion = reader_.take(wait)) {
    send(std::move(completion), make_error(errc::operation_aborted, {}));
  }
}

// Both sides call this: the writer after it has published, the reader after it has offered.
void StreamOperation::serve_reader() noexcept {
  const HandOver::Wait wait = reader_.waiting();
  if (!wait || !buffer_.has_more(wait.taken())) return;
  if (auto completion = reader_.take(wait)) send(std::move(completion), {});
}

void StreamOperation::send(NextCompletion completion, error_code error) noexcept {
  try {
    auto executor = completion.executor();
    boost::asio::post(executor, Delivery(*this, std::move(completion), error));
  } catch (...) {
    // No memory for the executor's queue entry; see Completion::post.
  }
}

}  // namespace tinyloop::actors
