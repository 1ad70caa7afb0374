// One prompt that many users share: computed once, continued for all of them at the same time:
// shared_prompt MODEL.gguf "In a village by the sea there lived a fisherman and his wife."
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <exception>
#include <future>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;

namespace {

constexpr const char* kUsers[] = {
    " One day the fisherman",  " His wife",          " A fox",        " Now the king",
    " In the evening a witch", " Their only cousin", " A storm came", " Three brothers",
};

// Only what the user adds: the prefix stands before it.
tinyloop::GenerateRequest request_of(const char* user, const tinyloop::PrefixCache& prefix) {
  tinyloop::GenerateRequest request;
  request.text = user;
  request.prefix = prefix;
  request.config.max_tokens = 20;
  return request;
}

void serve(const tinyloop::Model& model, const std::string& shared) {
  const tinyloop::PrefixCache prefix =
      model.async_build_prefix({.text = shared}, asio::use_future).get();
  const tinyloop::PrefixInfo info = prefix.info();
  std::cout << shared << "\n[kept: " << info.positions << " tokens at " << info.loops << " loops, "
            << info.bytes() << " bytes]\n";

  std::vector<std::future<tinyloop::GenerateResult>> answers;
  for (const char* user : kUsers) {
    answers.push_back(model.async_generate(request_of(user, prefix), asio::use_future));
  }
  size_t prompts = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const tinyloop::GenerateResult result = answers[i].get();
    prompts += result.prompt_tokens;  // the prefix's included
    std::cout << "…" << kUsers[i] << result.text << '\n';
  }
  // The prefix was computed once, and then what is new of each prompt.
  const size_t computed = model.statistics().prompt_tokens - size_t(info.positions);
  std::cout << "[" << answers.size() << " prompts of " << prompts << " tokens: " << computed
            << " computed, " << prompts - computed << " saved]\n";

  model.async_release(prefix, asio::use_future).get();
  std::cout << "[released: " << model.memory().page_bytes_used << " bytes of pages in use]\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: shared_prompt MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    serve(engine.load(argv[1]), argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "shared_prompt: " << error.what() << '\n';
    return 1;
  }
}
