#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "stress/driver.h"

namespace tinyloop::stress {

namespace asio = boost::asio;

namespace {

asio::awaitable<void> generate(const Model& model, const Workload& workload, Tally& tally,
                               const Job& job) {
  auto [error, result] =
      co_await model.async_generate(workload.request(job), asio::as_tuple(asio::use_awaitable));
  tally.generated(job, error, result);
}

}  // namespace

void drive_coroutine(const Model& model, const Workload& workload, Tally& tally, const Job& job) {
  asio::io_context io;
  asio::cancellation_signal signal;
  int completions = 0;
  asio::co_spawn(io, generate(model, workload, tally, job),
                 asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) {
                   ++completions;
                   if (error) tally.problem(job, "the coroutine threw");
                 }));
  io.poll();  // starts the request
  const auto cancel = [&] { signal.emit(asio::cancellation_type::terminal); };
  if (job.may_be_cancelled()) {
    // On this thread, which runs the coroutine.
    Job here = job;
    here.elsewhere = false;
    const Cutter cutter(here, tally.pace(job), cancel);
  }
  io.run();
  if (completions != 1) tally.problem(job, "the coroutine did not complete once");
}

}  // namespace tinyloop::stress
