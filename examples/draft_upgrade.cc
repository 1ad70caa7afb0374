// A quick draft at 2 loops, then the careful text at 8 without computing the prompt's first
// iterations again: draft_upgrade MODEL.gguf "Once upon a time"
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;

namespace {

// The prompt is the handle's; nothing is added to it.
tinyloop::GenerateRequest resume(const tinyloop::ResumeHandle& handle, int loops) {
  tinyloop::GenerateRequest request;
  request.resume = handle;
  request.resume_loops = loops;
  request.config.max_tokens = 40;
  return request;
}

tinyloop::GenerateResult run(const tinyloop::Model& model, const char* how,
                             const tinyloop::GenerateRequest& request) {
  auto result = model.async_generate(request, asio::use_future).get();
  const tinyloop::Timings& timings = result.timings;
  std::cout << how << ", loops " << result.loops << ": prompt " << timings.prefill_us / 1000
            << " ms, new tokens " << timings.decode_us / 1000 << " ms\n …" << result.text << '\n';
  return result;
}

// Whether the upgraded text is the one that is computed from the beginning.
bool upgrade(const tinyloop::Model& model, const std::string& text) {
  const tinyloop::ResumeHandle draft =
      model
          .async_build_resume({.prefix = {.text = text, .loops = 2}, .max_loops = 8},
                              asio::use_future)
          .get();
  std::cout << text << '\n';
  run(model, "draft", resume(draft, 2));

  // A handle half way shares the pages of the first two iterations with the draft's.
  const tinyloop::ResumeHandle deeper =
      model.async_deepen({.handle = draft, .loops = 4}, asio::use_future).get();
  const auto resumed = run(model, "upgrade", resume(deeper, 8));

  tinyloop::GenerateRequest whole;
  whole.text = text;
  whole.config.loops = 8;
  whole.config.max_tokens = 40;
  const auto fresh = run(model, "from the beginning", whole);
  const bool same = resumed.tokens == fresh.tokens;
  std::cout << (same ? "[the same tokens]\n" : "[other tokens]\n");
  return same;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: draft_upgrade MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    return upgrade(engine.load(argv[1]), argv[2]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "draft_upgrade: " << error.what() << '\n';
    return 1;
  }
}
