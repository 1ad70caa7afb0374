// A generation whose result comes in one piece.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actors/logprob_slots.h"
#include "actors/operation.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

// Room for the result is taken in the constructor, on the caller's thread: all of it, unless the
// text has more than eight bytes a token.
class GenerateOperation final : public Operation {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  GenerateOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                    detail::Completion<GenerateResult>& completion);

 private:
  void take_token(int32_t token, std::string_view text, const PositionLogprobs* logprobs) override;
  void take_text(std::string_view text) override { text_.append(text); }
  void deliver(OnThread thread) noexcept override { send(thread); }
  const boost::asio::any_io_executor& executor() const noexcept override {
    return completion_.executor();
  }
  void open() override;
  void lose() noexcept override { const auto lost = std::move(completion_); }

  std::vector<int32_t> tokens_;
  std::string text_;
  LogprobSlots logprobs_;
  detail::Completion<GenerateResult> completion_;
};

}  // namespace tinyloop::actors
