#include "tinyloop/token_stream.h"

#include <boost/asio/system_executor.hpp>
#include <utility>

#include "actors/error.h"
#include "actors/model_state.h"

namespace tinyloop {

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  if (this == &other) return *this;
  reset();
  stream_ = std::move(other.stream_);
  return *this;
}

void TokenStream::cancel() noexcept {
  if (stream_) stream_->operation().request_cancel();
}

void TokenStream::reset() noexcept {
  if (!stream_) return;
  stream_->operation().abandon();
  stream_.reset();
}

namespace detail {

boost::asio::any_io_executor default_executor(const StreamRef& stream) {
  return default_executor(stream ? stream->model() : nullptr);
}

void next_chunk(const StreamRef& stream, Completion<StreamChunk> completion) {
  if (!stream) return completion.post(actors::make_error(errc::end_of_stream, {}), {});
  completion.keep(stream->model());
  stream->operation().next(std::move(completion));
}

}  // namespace detail

}  // namespace tinyloop
