// Prints a text while it is being made, through a callback: stream MODEL.gguf "Once upon a time"
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: stream MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    tinyloop::GenerateRequest request;
    request.text = argv[2];
    request.config.max_tokens = 200;
    request.config.temperature = 0.8f;
    request.config.seed = 1;
    request.config.stop_sequences = {"The end"};

    std::cout << request.text << std::flush;
    // The calls come one after another, and the last one before get() returns.
    const auto print = [](const tinyloop::StreamChunk& chunk) {
      std::cout << chunk.text << std::flush;
    };
    const auto result = model.async_generate(request, print, boost::asio::use_future).get();
    std::cout << "\n[" << to_string(result.finish_reason) << "]\n";
  } catch (const std::exception& error) {
    std::cerr << "stream: " << error.what() << '\n';
    return 1;
  }
}
