// A generation that is read while it runs: the writer's side is the engine's client, the reader's
// side is TokenStream.
#pragma once

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
  class Delivery;

  void take_token(int32_t token, std::string_view text, const PositionLogprobs* logprobs) override;
  void take_text(std::string_view text) override { buffer_.add_text(text); }
  void deliver() noexcept override;

  void cancel_next(HandOver::Wait wait) noexcept;
  void serve_reader() noexcept;
  void send(detail::Completion<StreamChunk> completion, error_code error) noexcept;

  StreamBuffer buffer_;
  HandOver reader_;
  size_t generated_ = 0;
};

}  // namespace tinyloop::actors
