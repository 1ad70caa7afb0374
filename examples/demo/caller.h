// One caller: asks for a tale and reads it token by token.
#pragma once

#include <tinyloop/tinyloop.h>

#include <boost/asio/awaitable.hpp>

#include "board.h"

namespace demo {

// Streams the request and writes what comes to `board`, which must outlive the coroutine. Ends
// when the tale has ended; errors go to the board, none comes out.
boost::asio::awaitable<void> listen(tinyloop::Model model, tinyloop::GenerateRequest request,
                                    size_t caller, Board& board);

}  // namespace demo
