// One text at several depths at the same time, each awaited by a coroutine on one thread:
// coroutine MODEL.gguf "Once upon a time"
#include <tinyloop/tinyloop.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;

namespace {

asio::awaitable<void> tell(tinyloop::Model model, std::string opening, int loops) {
  tinyloop::GenerateRequest request;
  request.text = opening;
  request.config.loops = loops;
  request.config.max_tokens = 40;
  // The coroutine sleeps; the thread runs the others meanwhile.
  const auto result = co_await model.async_generate(request, asio::use_awaitable);
  std::cout << "loops " << loops << ": " << opening << result.text << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: coroutine MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    asio::io_context context;
    bool failed = false;
    const auto done = [&](std::exception_ptr error) {
      if (!error) return;
      failed = true;
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& exception) {
        std::cerr << "coroutine: " << exception.what() << '\n';
      }
    };
    for (int loops = 1; loops <= std::min(8, model.info().max_loops); loops *= 2) {
      asio::co_spawn(context, tell(model, argv[2], loops), done);
    }
    context.run();
    return failed ? 1 : 0;
  } catch (const std::exception& error) {
    std::cerr << "coroutine: " << error.what() << '\n';
    return 1;
  }
}
