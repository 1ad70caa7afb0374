// The blocking interface: prefix pools.
#include <utility>

#include "actors/blocking_call.h"

namespace tinyloop {

PrefixPool* create_prefix_pool(size_t capacity) {
  PoolOptions options;
  options.capacity = capacity;
  const auto made = actors::attempt([&] { return new PrefixPool(options); });
  if (made) return *made;
  if (actors::is_contract_error(made.error()))
    actors::break_off("create_prefix_pool", made.error());
  return nullptr;
}

int register_prefix(PrefixPool* pool, Model* model, const int32_t* tokens, int seq_len, int n_loops,
                    int cache_window) {
  const actors::BlockingCall call("register_prefix", model);
  return call.run_or<int>(0, [&] {
    const PrefixPool& target = actors::given("pool", pool);
    PrefixRequest request = call.prefix(tokens, seq_len, cache_window);
    call.check_loops("n_loops", n_loops);
    request.loops = n_loops;
    return actors::wait_for<int32_t>([&](auto token) {
      call.model().async_register_prefix(target, std::move(request), std::move(token));
    });
  });
}

std::vector<int32_t> generate_with_pool(Model* model, PrefixPool* pool, const int32_t* prompt,
                                        int prompt_len, const GenerateConfig& config) {
  const actors::BlockingCall call("generate_with_pool", model);
  return call.run([&] {
    GenerateRequest request;
    request.pool = actors::given("pool", pool);
    request.tokens = call.tokens("prompt", prompt, "prompt_len", prompt_len);
    return call.generate(std::move(request), config, actors::kBlockingLoops);
  });
}

void free_prefix_pool(PrefixPool* pool) {
  delete pool;
}

}  // namespace tinyloop
