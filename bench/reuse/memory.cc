#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "bench/calls.h"
#include "bench/reuse/tables.h"

namespace tinyloop::bench {

namespace {

struct Pages {
  size_t pages = 0;
  size_t bytes = 0;
  size_t active = 0;  // requests then
};

Pages held(const Model& model) {
  const MemoryReport report = model.memory();
  return {report.pages_used, report.page_bytes_used, model.health().replicas.at(0).active};
}

bool ready(const std::future<GenerateResult>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The most that is held while the requests run, all at once.
Pages most_held(const Model& model, const std::vector<GenerateRequest>& requests) {
  std::vector<std::future<GenerateResult>> results;
  for (const GenerateRequest& request : requests) results.push_back(begin_generate(model, request));
  Pages most;
  for (auto& result : results) {
    while (!ready(result)) {
      const Pages now = held(model);
      if (now.pages > most.pages) most = now;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    result.get();
  }
  return most;
}

std::vector<GenerateRequest> behind(const PrefixCache& cache, int32_t loops, int32_t count,
                                    int32_t decoded) {
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < count; ++i) {
    requests.push_back(greedy({1 + i}, loops, decoded));
    requests.back().prefix = cache;
    requests.back().when_full = WhenFull::wait;
  }
  return requests;
}

void print_row(const std::string& what, size_t pages, size_t bytes, const std::string& active) {
  std::printf("| %s | %zu | %.2f | %s |\n", what.c_str(), pages, double(bytes) / (1 << 20),
              active.c_str());
}

}  // namespace

void print_memory(const Model& model, int32_t loops, const MemorySettings& settings) {
  const auto k = size_t(settings.generations);
  auto tokens = some_tokens(settings.prefix, model.info().vocab, 1);
  generate(model, greedy({1}, loops, 1));  // what was dropped before has been given back then
  const Pages none = held(model);
  GenerateRequest plain = greedy(tokens, loops, settings.decoded);
  plain.tokens.push_back(1);
  const Pages alone = most_held(model, {plain});
  PrefixRequest request;
  request.tokens = std::move(tokens);
  request.loops = loops;
  const PrefixCache cache = build_prefix(model, request);
  const Pages prefix = held(model);
  const Pages one = most_held(model, behind(cache, loops, 1, settings.decoded));
  const Pages all = most_held(model, behind(cache, loops, settings.generations, settings.decoded));
  const size_t own = one.pages - prefix.pages, own_bytes = one.bytes - prefix.bytes;
  const size_t expected = k * own + prefix.pages;
  std::printf(
      "\n## Memory of %zu generations of %d tokens behind a prefix of %d positions, %d loops\n\n"
      "| | pages | MiB | requests at that moment |\n|---|---|---|---|\n",
      k, settings.decoded, settings.prefix, loops);
  print_row("before", none.pages, none.bytes, "");
  print_row("the prefix", prefix.pages, prefix.bytes, "");
  print_row("a generation's own", own, own_bytes, std::to_string(one.active));
  print_row(std::to_string(k) + " generations and the prefix, most held", all.pages, all.bytes,
            std::to_string(all.active));
  print_row(std::to_string(k) + " × own + prefix", expected, k * own_bytes + prefix.bytes, "");
  print_row(std::to_string(k) + " × one without the prefix", k * alone.pages, k * alone.bytes, "");
  std::printf("\nHeld %zu of %zu pages: %s.\n", all.pages, expected,
              all.pages <= expected && all.active == k ? "met" : "missed");
}

}  // namespace tinyloop::bench
