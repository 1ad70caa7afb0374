#include "caller.h"

#include <boost/asio/use_awaitable.hpp>
#include <exception>

namespace demo {

boost::asio::awaitable<void> listen(tinyloop::Model model, tinyloop::GenerateRequest request,
                                    size_t caller, Board& board) {
  try {
    tinyloop::TokenStream stream = model.stream(request);
    for (bool more = true; more;) {
      const tinyloop::StreamChunk chunk = co_await stream.async_next(boost::asio::use_awaitable);
      board.add(caller, chunk);
      more = !chunk.summary;
    }
  } catch (const std::exception& error) {
    board.fail(caller, error.what());
  }
}

}  // namespace demo
