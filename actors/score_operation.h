// The scoring of a text.
#pragma once

#include <utility>
#include <vector>

#include "actors/operation.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

class ScoreOperation final : public Operation {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  ScoreOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                 detail::Completion<ScoreResult>& completion);

  void on_score(float logprob) noexcept override;

 private:
  void deliver(OnThread thread) noexcept override { send(thread); }
  const boost::asio::any_io_executor& executor() const noexcept override {
    return completion_.executor();
  }
  void open() override;
  void lose() noexcept override { const auto lost = std::move(completion_); }

  std::vector<float> logprobs_;  // reserved for the whole text
  detail::Completion<ScoreResult> completion_;
};

}  // namespace tinyloop::actors
