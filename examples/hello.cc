// Loads a model and continues one text: hello MODEL.gguf "Once upon a time"
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: hello MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    tinyloop::GenerateRequest request;
    request.text = argv[2];
    request.config.max_tokens = 60;
    const auto result = model.async_generate(request, boost::asio::use_future).get();
    std::cout << argv[2] << result.text << '\n';
  } catch (const std::exception& error) {
    std::cerr << "hello: " << error.what() << '\n';
    return 1;
  }
}
