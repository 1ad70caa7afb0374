// The scoring of a text.
#pragma once

#include <utility>
#include <vector>

#include "actors/answering_operation.h"

namespace tinyloop::actors {

class ScoreOperation final : public AnsweringOperation<ScoreResult> {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  ScoreOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                 detail::Completion<ScoreResult>& completion);

  void on_score(float logprob) noexcept override;

 private:
  void open() override;

  std::vector<float> logprobs_;  // reserved for the whole text
};

}  // namespace tinyloop::actors
