// A generation that is read while it runs: the writer's side is the engine's client, the reader's
// side is TokenStream.
#pragma once

#include <utility>

#include "actors/hand_over.h"
#include "actors/operation.h"
#include "actors/stream_buffer.h"

namespace tinyloop::actors {

class StreamOperation final : public Operation {
 public:
  StreamOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how);

  // Reader; see TokenStream::async_next.
  void next(detail::Completion<StreamChunk> completion);
  // Reader: ends the request and an outstanding next().
  void abandon() noexcept;

 private:
  void take_token(int32_t token, std::string_view text, const PositionLogprobs* logprobs) override;
  void take_text(std::string_view text) override { buffer_.add_text(text); }
  void deliver(OnThread thread) noexcept override;

  void let_cancel_next(boost::asio::cancellation_slot slot, HandOver::Wait wait);
  void abort(detail::Completion<StreamChunk> completion) noexcept;
  void serve_reader(OnThread thread) noexcept;
  void answer(detail::Completion<StreamChunk> completion, error_code error,
              OnThread thread) noexcept;
  const boost::asio::any_io_executor& executor() const noexcept override {
    return answer_.executor();
  }
  void open() override;
  void lose() noexcept override;

  StreamBuffer buffer_;
  HandOver reader_;
  // To the reader, on its way; whoever has taken the wait writes them.
  detail::Completion<StreamChunk> answer_;
  error_code answer_error_;
  size_t generated_ = 0;
};

}  // namespace tinyloop::actors
