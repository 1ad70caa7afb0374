#include "run.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>

#include "caller.h"

namespace demo {

namespace asio = boost::asio;

namespace {

constexpr size_t kThreads = 2;  // the coroutines only wait and copy
constexpr auto kFrame = std::chrono::milliseconds(100);

asio::awaitable<void> watch(const Board& board, Display& display) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (bool more = true; more;) {
    timer.expires_after(kFrame);
    co_await timer.async_wait(asio::use_awaitable);
    const Snapshot snapshot = board.snapshot();
    display.show(snapshot);
    more = !snapshot.all_done();
  }
}

// The replica's counters at rest: the answer to a trim comes between two steps. Gives the page
// arena back, too.
tinyloop::Statistics settled_statistics(const tinyloop::Model& model) {
  model.async_trim(asio::use_future).get();
  return model.statistics();
}

}  // namespace

Run run_callers(const tinyloop::Model& model,
                const std::vector<tinyloop::GenerateRequest>& requests, Display* display) {
  const tinyloop::Statistics before = settled_statistics(model);
  Board board(requests);
  asio::thread_pool pool(kThreads);
  for (size_t i = 0; i < requests.size(); ++i) {
    asio::co_spawn(pool, listen(model, requests[i], i, board), asio::detached);
  }
  if (display) asio::co_spawn(pool, watch(board, *display), asio::detached);
  pool.join();
  const tinyloop::MemoryReport memory = model.memory();
  const tinyloop::Statistics after = settled_statistics(model);
  return {.result = board.snapshot(),
          .passes = after.passes - before.passes,
          .block_rows = after.block_rows - before.block_rows,
          .memory = memory};
}

}  // namespace demo
