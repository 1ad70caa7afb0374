// Runs a BatchEngine without an actor: for tests of the model's results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/batch_engine.h"
#include "engine/memory_ledger.h"
#include "kernels/backend.h"

namespace tinyloop::testing {

// Everything a client is told.
class RecordingClient final : public engine::SequenceClient {
 public:
  // hashed, kept: the client asks for logits, and keeps the hash of all, or every row as well.
  enum class Logits : uint8_t { unasked, hashed, kept };

  explicit RecordingClient(bool keep_logits = false)
      : RecordingClient(keep_logits ? Logits::kept : Logits::hashed) {}
  explicit RecordingClient(Logits logits_wanted) : wanted_(logits_wanted) {}

  bool wants_logits() const noexcept override { return wanted_ != Logits::unasked; }

  void on_begin() noexcept override { ++begins; }
  void on_token(int32_t token, std::string_view released,
                const PositionLogprobs* entry) noexcept override;
  void on_score(float logprob) noexcept override { scores.push_back(logprob); }
  void on_prefix(engine::PrefixId id) noexcept override { prefix = id; }
  void on_finished(FinishReason reason, std::string_view rest) noexcept override;
  void on_failed(const base::Error& failure) noexcept override;
  void on_logits(int32_t position, std::span<const float> row) noexcept override;

  bool ended() const { return finished || error; }

  int begins = 0;
  int ends = 0;
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<PositionLogprobs> logprobs;
  std::vector<float> scores;
  engine::PrefixId prefix = 0;
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> logit_positions;
  uint64_t logits_hash = 14695981039346656037u;  // FNV-1a over the bits of all logits
  std::optional<FinishReason> finished;
  std::optional<base::Error> error;

 private:
  Logits wanted_;
};

// A backend, a ledger and an engine that owns nothing else.
class EngineDriver {
 public:
  // Fails the running test where the model does not load.
  EngineDriver(const std::string& path, const ModelOptions& options);

  engine::BatchEngine& engine() { return *engine_; }
  kernels::Backend& backend() { return *backend_; }
  MemoryReport memory() const { return ledger_.report(backend_->memory()); }

  engine::SequenceRequest check(const GenerateRequest& request) const;
  engine::SequenceRequest check(const ScoreRequest& request) const;
  engine::SequenceRequest check(const PrefixRequest& request) const;
  engine::SequenceRequest check(const ResumeRequest& request) const;
  // Behind a cached prefix with these tokens.
  engine::SequenceRequest check(const GenerateRequest& request, engine::PrefixId base,
                                const std::vector<int32_t>& tokens) const;
  engine::SequenceId admit(engine::SequenceRequest request, RecordingClient& client);
  // Steps until nothing is left to do.
  void run();

 private:
  std::unique_ptr<kernels::Backend> backend_;
  engine::MemoryLedger ledger_;
  base::LogSink log_;
  std::unique_ptr<engine::BatchEngine> engine_;
};

}  // namespace tinyloop::testing
