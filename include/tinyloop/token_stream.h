// The tokens of one request as they are sampled.
//
//   tinyloop::TokenStream stream = model.stream({.text = "Once upon a time"});
//   for (bool more = true; more;) {
//     tinyloop::StreamChunk chunk = co_await stream.async_next(boost::asio::use_awaitable);
//     std::cout << chunk.text << std::flush;
//     more = !chunk.summary;
//   }
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <utility>

#include "tinyloop/detail/operations.h"

namespace tinyloop {

// The request's buffer holds max_tokens, so a slow reader neither stops the replica nor loses a
// token. Destroying or resetting the stream cancels the request.
//
// Thread rule: as for any I/O object, one thread at a time; cancel() may be called from any thread.
class TINYLOOP_API TokenStream {
 public:
  using executor_type = boost::asio::any_io_executor;

  TokenStream() = default;  // empty: async_next gives errc::end_of_stream
  explicit TokenStream(detail::StreamRef stream) noexcept : stream_(std::move(stream)) {}
  TokenStream(TokenStream&& other) noexcept = default;
  TokenStream& operator=(TokenStream&& other) noexcept;
  ~TokenStream() { reset(); }

  // void(error_code, StreamChunk). Waits until there is something new, then hands over all of it.
  // The last chunk carries `summary`; after it comes errc::end_of_stream (boost::asio::error::eof).
  // An error of the request comes once, after the tokens that were sampled before it, and then the
  // end of stream. At most one call at a time: a second gets errc::stream_busy at once.
  // Cancelling the call (any type) gives operation_aborted and loses no token; the request goes on.
  template <boost::asio::completion_token_for<void(error_code, StreamChunk)> Token>
  auto async_next(Token&& token) {
    return boost::asio::async_initiate<Token, void(error_code, StreamChunk)>(
        [stream = stream_](auto handler) {
          detail::next_chunk(stream, {std::move(handler), detail::default_executor(stream)});
        },
        token);
  }

  // Ends the request within one step. What was sampled before, and the summary with
  // FinishReason::cancelled, can still be read. A second call, or one after the end, does nothing.
  void cancel() noexcept;

  // Cancels, ends an outstanding async_next with operation_aborted, and leaves the stream empty.
  void reset() noexcept;

  explicit operator bool() const noexcept { return stream_ != nullptr; }
  executor_type get_executor() const { return detail::default_executor(stream_); }

 private:
  detail::StreamRef stream_;
};

}  // namespace tinyloop
