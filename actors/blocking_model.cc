// The blocking interface: models, and generating without handles.
#include <memory>
#include <string>
#include <utility>

#include "actors/blocking_call.h"
#include "actors/default_log.h"
#include "tinyloop/engine.h"

namespace tinyloop {

namespace {

// What load_model returns.
class LoadedModel final : public Model {
 public:
  LoadedModel(Engine engine, Model model) : Model(std::move(model)), engine_(std::move(engine)) {}
  Engine& engine() { return engine_; }

 private:
  Engine engine_;
};

Model* load(const std::string& path, const ModelOptions& options, const LogSink& log) {
  Engine engine(
      EngineOptions{.executor = {}, .log = log, .on_thread_start = {}, .on_thread_stop = {}});
  Model model = engine.load(path, options);
  return new LoadedModel(std::move(engine), std::move(model));
}

}  // namespace

Model* load_model(const std::string& path, int max_seq_len, int prefill_chunk) {
  const auto answer = actors::attempt([&] {
    ModelOptions options;
    options.max_seq_len = max_seq_len;
    options.prefill_chunk = prefill_chunk;
    const LogSink log = actors::default_log();
    auto loaded = actors::attempt([&] { return load(path, options, log); });
    if (loaded) return *loaded;
    log(LogLevel::error, "load_model: " + loaded.error().message());
    return static_cast<Model*>(nullptr);
  });
  return answer ? *answer : nullptr;  // no memory, not even for the message
}

void free_model(Model* model) {
  if (!model) return;
  const std::unique_ptr<LoadedModel> loaded(static_cast<LoadedModel*>(model));
  // An exception would be std::bad_alloc; then the engine's destructor cancels what is in flight.
  actors::attempt([&] { return loaded->engine().shutdown(ShutdownMode::drain), true; });
}

size_t vram_usage_bytes(Model* model) {
  const actors::BlockingCall call("vram_usage_bytes", model);
  return call.run([&] { return call.model().memory().model_bytes(); });
}

std::vector<int32_t> generate(Model* model, const int32_t* prompt, int prompt_len,
                              const GenerateConfig& config) {
  const actors::BlockingCall call("generate", model);
  return call.run([&] {
    GenerateRequest request;
    request.tokens = call.tokens("prompt", prompt, "prompt_len", prompt_len);
    return call.generate(std::move(request), config, actors::kBlockingLoops);
  });
}

}  // namespace tinyloop
