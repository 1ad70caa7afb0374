// Three ways to end a request early; each time the tokens so far are in the result:
// cancel MODEL.gguf "Once upon a time"
#include <tinyloop/tinyloop.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <exception>
#include <iostream>

namespace asio = boost::asio;

namespace {

constexpr int kWanted = 10;

void report(const char* how, const tinyloop::GenerateResult& result) {
  std::cout << how << ": " << result.tokens.size() - result.prompt_tokens << " tokens, "
            << to_string(result.finish_reason) << '\n';
}

// A cancellation signal, here emitted by the request's own callback.
void by_signal(const tinyloop::Model& model, const tinyloop::GenerateRequest& request) {
  asio::cancellation_signal signal;
  size_t tokens = 0;
  const auto count = [&](const tinyloop::StreamChunk& chunk) {
    tokens += chunk.tokens.size();
    if (tokens >= kWanted) signal.emit(asio::cancellation_type::all);
  };
  auto future = model.async_generate(request, count,
                                     asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  report("signal", future.get());
}

// A deadline, looked at between steps.
void by_deadline(const tinyloop::Model& model, tinyloop::GenerateRequest request) {
  request.config.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  report("deadline", model.async_generate(request, asio::use_future).get());
}

// A stream: cancel() keeps what has been sampled; destroying the stream would drop it.
void by_stream(const tinyloop::Model& model, const tinyloop::GenerateRequest& request) {
  tinyloop::TokenStream stream = model.stream(request);
  size_t tokens = 0;
  for (;;) {
    const tinyloop::StreamChunk chunk = stream.async_next(asio::use_future).get();
    tokens += chunk.tokens.size();
    if (tokens >= kWanted) stream.cancel();
    if (!chunk.summary) continue;
    std::cout << "stream: " << tokens << " tokens, " << to_string(chunk.summary->finish_reason)
              << '\n';
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: cancel MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    tinyloop::GenerateRequest request;
    request.text = argv[2];
    request.config.max_tokens = 1000;
    request.config.eos = tinyloop::EosMode::ignore;
    by_signal(model, request);
    by_deadline(model, request);
    by_stream(model, request);
  } catch (const std::exception& error) {
    std::cerr << "cancel: " << error.what() << '\n';
    return 1;
  }
}
