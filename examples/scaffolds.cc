// A service of several tenants, each with a scaffold that all of its prompts begin with, and a chat
// whose turns are kept by themselves: scaffolds MODEL.gguf " A fox came by"
#include <tinyloop/tinyloop.h>

#include <boost/asio/use_future.hpp>
#include <exception>
#include <future>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;

namespace {

constexpr const char* kScaffolds[] = {
    "There was once a king who had three sons and could not tell which was the wisest.",
    "Deep in the forest, where no road led, an old woman lived in a house of moss.",
    "A miller had nothing left but his mill, and behind it a great apple tree.",
};
constexpr int kPromptsEach = 4;

void report(const char* name, const tinyloop::PrefixPool& pool) {
  const tinyloop::PoolStatistics figures = pool.statistics();
  std::cout << name << ": " << figures.entries << " prefixes of " << figures.bytes << " bytes, "
            << figures.hits << " hits, " << figures.misses << " misses, " << figures.tokens_saved
            << " tokens saved\n";
}

// Scaffolds that are known beforehand. The requests carry whole prompts; the pool finds what they
// begin with.
void serve_tenants(const tinyloop::Model& model, const std::string& text) {
  const tinyloop::PrefixPool pool({.capacity = 8});
  for (const char* scaffold : kScaffolds) {
    model.async_register_prefix(pool, {.text = scaffold}, asio::use_future).get();
  }
  std::vector<std::future<tinyloop::GenerateResult>> answers;
  for (int i = 0; i < kPromptsEach; ++i) {
    for (const char* scaffold : kScaffolds) {
      tinyloop::GenerateRequest request;
      request.text = scaffold + text;
      request.config = {.max_tokens = 20, .temperature = 0.8f, .seed = uint64_t(i)};
      request.pool = pool;
      answers.push_back(model.async_generate(request, asio::use_future));
    }
  }
  for (auto& answer : answers) std::cout << "…" << text << answer.get().text << '\n';
  report("tenants", pool);
}

// Each turn's prompt is the last one's result and a few words more. The pool keeps every prompt.
void chat(const tinyloop::Model& model, const std::string& text) {
  const tinyloop::PrefixPool pool({.capacity = 4, .automatic = true});
  const auto words = model.tokenizer().encode(text, {.add_bos = false});
  tinyloop::GenerateRequest request;
  request.tokens = model.tokenizer().encode(kScaffolds[0]);
  request.config.max_tokens = 20;
  request.config.eos = tinyloop::EosMode::ignore;
  request.pool = pool;
  for (int turn = 0; turn < 3; ++turn) {
    request.tokens.insert(request.tokens.end(), words.begin(), words.end());
    request.tokens = model.async_generate(request, asio::use_future).get().tokens;
  }
  std::cout << model.tokenizer().decode(request.tokens) << '\n';
  report("chat", pool);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: scaffolds MODEL.gguf TEXT\n";
    return 2;
  }
  try {
    tinyloop::Engine engine;
    const tinyloop::Model model = engine.load(argv[1]);
    serve_tenants(model, argv[2]);
    chat(model, argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "scaffolds: " << error.what() << '\n';
    return 1;
  }
}
