// One call of the blocking interface: its arguments checked, the asynchronous operation waited for,
// its error turned into what the interface promises. On the caller's thread alone.
#pragma once

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/contract.h"
#include "tinyloop/model.h"

namespace tinyloop::actors {

constexpr int32_t kBlockingLoops = 8;  // the interface's default depth

// What the exception being handled says. Only inside a catch clause.
error_code blocking_error() noexcept;

// What `body` returns, or the error it throws.
template <class Body>
auto attempt(Body&& body) noexcept -> boost::system::result<decltype(body())> {
  try {
    return body();
  } catch (...) {
    return {boost::system::in_place_error, blocking_error()};
  }
}

// A pointer argument's value. Throws base::Failure for null, or an empty reference.
[[noreturn]] void refuse_pointer(const char* name, bool null);
template <class Reference>
const Reference& given(const char* name, const Reference* pointer) {
  if (!pointer || !*pointer) refuse_pointer(name, pointer == nullptr);
  return *pointer;
}

enum class OutOfMemory : uint8_t { is_a_failure, is_a_breach };  // of the contract

class BlockingCall {
 public:
  // `function`: a literal, the name its caller knows it by. A null model is an error in `run`. The
  // call keeps the model alive, whoever frees the pointer meanwhile.
  BlockingCall(const char* function, const Model* model,
               OutOfMemory out_of_memory = OutOfMemory::is_a_failure)
      : function_(function), out_of_memory_(out_of_memory), null_(!model) {
    if (model) model_ = *model;
  }

  const Model& model() const noexcept { return model_; }

  // Arguments, inside `run` alone. Each throws base::Failure, which names the argument.
  std::vector<int32_t> tokens(const char* name, const int32_t* tokens, const char* length_name,
                              int length) const;
  // All of a prefix but its depth.
  PrefixRequest prefix(const int32_t* tokens, int seq_len, int cache_window) const;
  // A depth that the file allows, and at most `high`.
  void check_loops(const char* name, int loops, int32_t low = 1, int32_t high = INT32_MAX) const;

  // Prompt and new tokens. `loops`: where config has none. Throws boost::system::system_error.
  std::vector<int32_t> generate(GenerateRequest request, const GenerateConfig& config,
                                int32_t loops) const;

  // What `body` returns. Whatever it throws is a breach of the contract.
  template <class Body>
  auto run(Body&& body) const {
    auto answer = attempt([&] { return check_model(), body(); });
    if (!answer) break_off(function_, answer.error());
    return std::move(*answer);
  }
  // The same, but a run-time failure gives `otherwise` and a message in the model's log.
  template <class Result, class Body>
  Result run_or(Result otherwise, Body&& body) const {
    auto answer = attempt([&]() -> Result { return check_model(), body(); });
    if (answer) return std::move(*answer);
    if (is_breach(answer.error())) break_off(function_, answer.error());
    log(answer.error());
    return otherwise;
  }

 private:
  void check_model() const;
  bool is_breach(const error_code& error) const noexcept;
  void log(const error_code& error) const noexcept;

  const char* const function_;
  const OutOfMemory out_of_memory_;
  const bool null_;
  Model model_;
};

[[noreturn]] void throw_code(const error_code& error);
[[noreturn]] void throw_lost();

// Starts an operation with `start(token)` and runs its handler here: a call needs no other thread
// than the replica's to make progress, so it is safe on threads that run handlers. Throws
// boost::system::system_error.
template <class Result, class Start>
Result wait_for(Start&& start) {
  boost::asio::io_context io(1);
  std::optional<std::pair<error_code, Result>> answer;
  start(boost::asio::bind_executor(io, [&answer](error_code error, Result result) {
    answer.emplace(error, std::move(result));
  }));
  io.run();
  if (!answer) throw_lost();
  if (answer->first) throw_code(answer->first);
  return std::move(answer->second);
}

}  // namespace tinyloop::actors
