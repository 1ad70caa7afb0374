// A loaded model: what requests are sent to.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tinyloop/detail/operations.h"
#include "tinyloop/metrics.h"
#include "tinyloop/reports.h"
#include "tinyloop/token_stream.h"
#include "tinyloop/tokenizer.h"
#include "tinyloop/trace.h"

namespace tinyloop {

// What a model is; constant from the load on.
struct ModelInfo {
  std::string name;          // general.name of the file; may be empty
  std::string architecture;  // "tinyloop" or "llama"
  std::string path;          // as given to load
  std::string device;  // "cpu (AVX3, int8, 2 threads)": all that fixes the bits of the results
  int32_t prelude_layers = 0;
  int32_t shared_layers = 0;  // the layers of one loop iteration
  int32_t coda_layers = 0;
  int32_t default_loops = 0;
  int32_t max_loops = 0;
  int32_t d_model = 0;
  int32_t vocab = 0;
  int32_t context_length = 0;  // positions the model was trained for
  int32_t max_seq_len = 0;     // positions a request may use (ModelOptions)

  bool operator==(const ModelInfo&) const = default;
};

// A cheap reference to a model; copies refer to the same one. Every member may be called from any
// thread at any time, on the same object too, save assignment and destruction.
//
// The model stays loaded as long as a Model, a TokenStream or a request in flight refers to it, at
// most until its Engine is destroyed. A Model may outlive its Engine: it then answers with
// errc::shutdown. After async_unload, and on an empty Model, the answer is errc::model_closed.
//
// Operations copy what they need from their arguments and return at once; they complete exactly
// once, by a post to the handler's associated executor, or to the engine's for a handler without
// one (an empty Model's: Asio's system executor). docs/errors.md lists what each can complete with.
//
// Cancellation, of any type, through the handler's cancellation slot, may be emitted from any
// thread: a queued request completes with operation_aborted, one that has begun completes within
// one step without error, with FinishReason::cancelled and the tokens so far. A second or a late
// cancel does nothing.
class TINYLOOP_API Model {
 public:
  using executor_type = boost::asio::any_io_executor;

  Model() = default;
  explicit Model(detail::ModelRef state) noexcept : state_(std::move(state)) {}

  // void(error_code, GenerateResult).
  template <boost::asio::completion_token_for<void(error_code, GenerateResult)> Token>
  auto async_generate(GenerateRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, GenerateResult)>(
        [state = state_](auto handler, const GenerateRequest& copy) {
          detail::generate(state, copy, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // The same, with `on_chunk(const StreamChunk&)` called for each part of the output as it comes,
  // in order, on the handler's executor, the last call before the handler. An exception out of
  // on_chunk is logged and cancels the request; on_chunk is then called no more.
  template <std::invocable<const StreamChunk&> Callback,
            boost::asio::completion_token_for<void(error_code, GenerateResult)> Token>
  auto async_generate(GenerateRequest request, Callback on_chunk, Token&& token) const {
    auto shared = std::make_shared<Callback>(std::move(on_chunk));
    return boost::asio::async_initiate<Token, void(error_code, GenerateResult)>(
        [state = state_, shared](auto handler, const GenerateRequest& copy) {
          detail::generate(state, copy,
                           [shared](const StreamChunk& chunk) { std::invoke(*shared, chunk); },
                           {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // Starts a request whose tokens are read one chunk at a time. Whatever is wrong with the request
  // comes out of the first async_next. Throws std::bad_alloc alone.
  TokenStream stream(const GenerateRequest& request) const;

  // void(error_code, ScoreResult).
  template <boost::asio::completion_token_for<void(error_code, ScoreResult)> Token>
  auto async_score(ScoreRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, ScoreResult)>(
        [state = state_](auto handler, const ScoreRequest& copy) {
          detail::score(state, copy, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // void(error_code, PrefixCache): computes a prefix and keeps it, for GenerateRequest::prefix. A
  // cancelled build keeps nothing and completes with operation_aborted.
  template <boost::asio::completion_token_for<void(error_code, PrefixCache)> Token>
  auto async_build_prefix(PrefixRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, PrefixCache)>(
        [state = state_](auto handler, const PrefixRequest& copy) {
          detail::build(state, copy, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // void(error_code, ResumeHandle): the same, for GenerateRequest::resume.
  template <boost::asio::completion_token_for<void(error_code, ResumeHandle)> Token>
  auto async_build_resume(ResumeRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, ResumeHandle)>(
        [state = state_](auto handler, const ResumeRequest& copy) {
          detail::build(state, copy, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // void(error_code, ResumeHandle): a handle at request.loops, which shares the pages of the
  // iterations that are behind both. The given handle stays as it is.
  template <boost::asio::completion_token_for<void(error_code, ResumeHandle)> Token>
  auto async_deepen(DeepenRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, ResumeHandle)>(
        [state = state_](auto handler, const DeepenRequest& copy) {
          detail::deepen(state, copy, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(request));
  }

  // void(error_code, int32_t): computes a prefix and keeps it in the pool; its id, a small positive
  // number that is free for others once the prefix has been evicted. A prefix that is there already
  // keeps its id. Several callers who register the same prefix have it computed once. A prefix of
  // more bytes than the pool may hold is out_of_memory.
  template <boost::asio::completion_token_for<void(error_code, int32_t)> Token>
  auto async_register_prefix(PrefixPool pool, PrefixRequest request, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, int32_t)>(
        [state = state_](auto handler, const PrefixPool& which, const PrefixRequest& copy) {
          detail::register_prefix(state, which.ref(), copy,
                                  {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(pool), std::move(request));
  }

  // void(error_code, PoolEntryInfo): what the pool holds under an id.
  template <boost::asio::completion_token_for<void(error_code, PoolEntryInfo)> Token>
  auto async_prefix_info(PrefixPool pool, int32_t id, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, PoolEntryInfo)>(
        [state = state_, id](auto handler, const PrefixPool& which) {
          detail::pool_entry(state, which.ref(), id,
                             {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(pool));
  }

  // void(error_code): lets go of what a handle refers to, whoever else has copies of it; completes
  // when its memory is back, once the requests in flight that use it have ended. Later requests
  // with the handle are handle_lost. The only error is out_of_memory, and then nothing has been
  // released; a second call completes at once. Cannot be cancelled.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_release(ReuseHandle handle, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_](auto handler, const ReuseHandle& which) {
          detail::release(which, {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(handle));
  }

  // void(error_code, size_t): gives unused page slabs back to the device; the bytes.
  template <boost::asio::completion_token_for<void(error_code, size_t)> Token>
  auto async_trim(Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, size_t)>(
        [state = state_](auto handler) {
          detail::trim(state, {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // void(error_code): takes a replica out of service, by its number from 0: it gets no more
  // requests, finishes those it has accepted, and gives all its memory back; then it is `drained`.
  // What was kept there for handles and pools is lost: handle_lost. Errors: invalid_argument, there
  // is no such replica; overloaded, it is being drained or loaded again already; shutdown and
  // model_closed. Cannot be cancelled.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_drain_replica(size_t replica, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_, replica](auto handler) {
          detail::drain_replica(state, replica,
                                {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // void(error_code): the same, and then loads the model again, from the same file: it serves. One
  // that has failed or was drained is loaded at once. Further errors: those of a load; the replica
  // is then `failed` and can be loaded again. The file must hold the same model: bad_model_file. A
  // CUDA device that has met an error it cannot recover from needs a new process.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_reload_replica(size_t replica, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_, replica](auto handler) {
          detail::reload_replica(state, replica,
                                 {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // void(error_code, Trace): a copy of the latest events of a replica, by its number from 0, at
  // most ModelOptions::trace_events, of a model that is not being unloaded; also of a replica that
  // has failed. Empty where tracing is off. The replica makes the copy between two steps, 10,000
  // events in about a tenth of a millisecond, into memory that is taken here: out_of_memory, where
  // there is none. invalid_argument: there is no such replica. Cannot be cancelled.
  template <boost::asio::completion_token_for<void(error_code, Trace)> Token>
  auto async_trace(size_t replica, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, Trace)>(
        [state = state_, replica](auto handler) {
          detail::read_trace(state, replica, {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // void(error_code): ends the model; completes when all of its requests have completed and its
  // memory is back. Cannot be cancelled. A second call completes with the first, and `cancel` cuts
  // a `drain` short. On an empty Model: model_closed.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_unload(ShutdownMode mode, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_, mode](auto handler) {
          detail::unload(state, mode, {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // Snapshots; empty ones from an empty Model. Of several replicas: sums, or one for each.
  MemoryReport memory() const;
  HealthReport health() const;
  Statistics statistics() const;
  std::vector<Metrics> metrics() const;  // tinyloop/metrics.h
  ModelInfo info() const;                // the first replica's
  Tokenizer tokenizer() const;

  explicit operator bool() const noexcept { return state_ != nullptr; }
  executor_type get_executor() const { return detail::default_executor(state_); }

  // For the library's own parts and tests.
  const detail::ModelRef& state() const noexcept { return state_; }

 private:
  detail::ModelRef state_;
};

}  // namespace tinyloop
