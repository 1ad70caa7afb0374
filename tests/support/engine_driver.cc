#include "tests/support/engine_driver.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "engine/tokenizer.h"

namespace tinyloop::testing {

void RecordingClient::on_token(int32_t token, std::string_view released,
                               const PositionLogprobs* entry) noexcept {
  tokens.push_back(token);
  text += released;
  if (entry) logprobs.push_back(*entry);
}

void RecordingClient::on_finished(FinishReason reason, std::string_view rest) noexcept {
  ++ends;
  finished = reason;
  text += rest;
}

void RecordingClient::on_failed(const base::Error& failure) noexcept {
  ++ends;
  error = failure;
}

void RecordingClient::on_logits(int32_t position, std::span<const float> row) noexcept {
  logit_positions.push_back(position);
  if (wanted_ == Logits::kept) logits.emplace_back(row.begin(), row.end());
  for (const float value : row) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    logits_hash = (logits_hash ^ bits) * 1099511628211u;
  }
}

EngineDriver::EngineDriver(const std::string& path, const ModelOptions& options)
    : backend_(kernels::make_backend(options).value()),
      log_([](LogLevel, std::string_view) {}),
      engine_(engine::BatchEngine::load(path, options, *backend_, ledger_, log_).value()) {}

engine::SequenceRequest EngineDriver::check(const GenerateRequest& request) const {
  return engine::check_request(request, engine_->limits(), engine_->tokenizer().get()).value();
}

engine::SequenceRequest EngineDriver::check(const ScoreRequest& request) const {
  return engine::check_request(request, engine_->limits()).value();
}

engine::SequenceRequest EngineDriver::check(const PrefixRequest& request) const {
  return engine::check_request(request, engine_->limits(), engine_->tokenizer().get()).value();
}

engine::SequenceRequest EngineDriver::check(const ResumeRequest& request) const {
  return engine::check_request(request, engine_->limits(), engine_->tokenizer().get()).value();
}

engine::SequenceRequest EngineDriver::check(const GenerateRequest& request, engine::PrefixId base,
                                            const std::vector<int32_t>& tokens) const {
  engine::CachedPrefixRef prefix = engine_->find_prefix(base);
  const engine::BaseTerms terms{tokens, prefix->shape()};
  auto checked =
      engine::check_request(request, engine_->limits(), engine_->tokenizer().get(), &terms).value();
  checked.base = std::move(prefix);
  return checked;
}

engine::SequenceId EngineDriver::admit(engine::SequenceRequest request, RecordingClient& client) {
  if (!engine_->try_reserve(request)) {
    throw std::runtime_error("no budget for the request");
  }
  return engine_->admit(std::move(request), client);
}

void EngineDriver::run() {
  while (engine_->active() > 0) engine_->step();
}

}  // namespace tinyloop::testing
