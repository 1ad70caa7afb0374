// Continues a text from another project's build: consumer MODEL.gguf TEXT [TOKENS]
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>
#include <cstdlib>
#include <future>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: consumer MODEL.gguf TEXT [TOKENS]\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    tinyloop::GenerateRequest request;
    request.text = argv[2];
    request.config.max_tokens = argc == 4 ? std::atoi(argv[3]) : 40;
    std::future<tinyloop::GenerateResult> continuation =
        model.async_generate(request, boost::asio::use_future);
    std::cout << argv[2] << continuation.get().text << '\n';
  } catch (const boost::system::system_error& error) {
    // The library's errors say what failed, with which value, against which bound.
    std::cerr << "consumer: " << error.code().message() << '\n';
    return 1;
  }
}
