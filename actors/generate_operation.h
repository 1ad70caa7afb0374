// A generation whose result comes in one piece.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actors/answering_operation.h"
#include "actors/logprob_slots.h"

namespace tinyloop::actors {

// Room for the result is taken in the constructor, on the caller's thread: all of it, unless the
// text has more than eight bytes a token.
class GenerateOperation final : public AnsweringOperation<GenerateResult> {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  GenerateOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                    detail::Completion<GenerateResult>& completion);

 private:
  void take_token(int32_t token, std::string_view text, const PositionLogprobs* logprobs) override;
  void take_text(std::string_view text) override { text_.append(text); }
  void open() override;

  std::vector<int32_t> tokens_;
  std::string text_;
  LogprobSlots logprobs_;
};

}  // namespace tinyloop::actors
