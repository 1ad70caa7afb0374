#include "engine/batch_engine.h"

#include <string>
#include <utility>

#include "engine/batch_engine_impl.h"
#include "engine/fp16_cache.h"
#include "engine/gguf_reader.h"
#include "engine/pass_cost.h"
#include "engine/tokenizer_from_gguf.h"

namespace tinyloop::engine {

namespace {

// What the file may ask for, but this device does not compute.
void check_device(const GgufFile& file, const ModelSpec& spec, const kernels::Backend& backend) {
  if (spec.head_dim <= backend.most_head_dim()) return;
  throw base::Failure(file.error(
      errc::unsupported_model, "head_dim: " + std::to_string(spec.head_dim) +
                                   ", expected at most " + std::to_string(backend.most_head_dim()) +
                                   " on " + backend.description()));
}

}  // namespace

base::Result<std::unique_ptr<BatchEngine>> BatchEngine::load(const std::string& path,
                                                             const ModelOptions& options,
                                                             kernels::Backend& backend,
                                                             MemoryLedger& ledger,
                                                             const base::LogSink& log) try {
  check_options(options).value();
  const GgufFile file = GgufFile::open(path).value();
  ModelSpec spec = read_model_spec(file).value();
  check_device(file, spec, backend);
  auto tokenizer = load_tokenizer(file).value();
  ModelWeights weights = ModelWeights::upload(spec, backend).value();
  BufferPool buffers = BufferPool::allocate(buffer_shape(spec, options), backend, ledger).value();
  if (backend.wants_fp16_copies()) {
    add_fp16_copies(weights, backend, fp16_cache_limit(options).value());
  }
  spec.tensors = {};  // their data end with the file
  auto shared_tokenizer =
      tokenizer ? std::make_shared<const Tokenizer>(*std::move(tokenizer)) : nullptr;
  auto impl = std::make_unique<Impl>(std::move(spec), std::move(weights), std::move(buffers),
                                     std::move(shared_tokenizer), options, backend, ledger, log);
  return std::unique_ptr<BatchEngine>(new BatchEngine(std::move(impl)));
} catch (const base::Failure& failure) {
  return failure.error();
}

BatchEngine::BatchEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchEngine::~BatchEngine() = default;

const RequestLimits& BatchEngine::limits() const {
  return impl_->limits_;
}
const ModelSpec& BatchEngine::spec() const {
  return impl_->spec_;
}
std::shared_ptr<const Tokenizer> BatchEngine::tokenizer() const {
  return impl_->tokenizer_;
}
size_t BatchEngine::cache_bytes(const SequenceRequest& request) const {
  return impl_->demand(request, request.config.max_tokens).least_budget();
}
size_t BatchEngine::admission_bytes(const SequenceRequest& request) const {
  return impl_->admission_demand(request).least_budget();
}

bool BatchEngine::could_ever_fit(size_t bytes) const {
  return bytes <= impl_->cache_.budget();
}
bool BatchEngine::try_reserve(SequenceRequest& request) {
  auto funding = impl_->reserve(request, impl_->admission_demand(request));
  if (funding) request.funding = std::move(*funding);
  return funding.has_value();
}
void BatchEngine::set_relief(std::function<bool()> relief) {
  impl_->relief_ = std::move(relief);
}
CachedPrefixRef BatchEngine::find_prefix(PrefixId id) const {
  return impl_->prefixes_.find(id);
}
void BatchEngine::drop_prefix(PrefixId id) {
  impl_->prefixes_.drop(id);
  impl_->cache_.publish();
  impl_->memory_came_back();
}
const PrefixSizes& BatchEngine::prefix_sizes() const {
  return impl_->prefixes_.sizes();
}
void BatchEngine::drop_prefixes() noexcept {
  impl_->prefixes_.drop_all();
  impl_->cache_.publish();
  impl_->memory_came_back();
}
PrefixId BatchEngine::next_prefix() const {
  return impl_->prefixes_.next_id();
}
void BatchEngine::number_prefixes_from(PrefixId first) {
  impl_->prefixes_.number_from(first);
}
HandleExcess BatchEngine::handle_excess(const PrefixShape& shape) const {
  return impl_->prefixes_.excess(shape);
}
const PassCost& BatchEngine::pass_cost() const {
  return impl_->policy_.cost;
}
bool BatchEngine::has_room(int64_t rank) const {
  return impl_->has_room(rank);
}
bool BatchEngine::may_have_budget(int64_t rank) const {
  return impl_->may_have_budget(rank);
}
size_t BatchEngine::active() const {
  return impl_->sequences_.size() + impl_->preempted_.size();
}
size_t BatchEngine::preempted() const {
  return impl_->preempted_.size();
}
SequenceId BatchEngine::admit(SequenceRequest request, SequenceClient& client) {
  return impl_->admit(std::move(request), client);
}
void BatchEngine::finish(SequenceId id, FinishReason reason) {
  impl_->finish(id, reason);
}
void BatchEngine::fail_all(const base::Error& error) noexcept {
  impl_->fail_all(error);
}
StepOutcome BatchEngine::step() {
  return impl_->step();
}
size_t BatchEngine::trim() {
  return impl_->trim();
}
void BatchEngine::set_plan_observer(std::function<void(const StepPlan&)> observer) {
  impl_->plan_observer_ = std::move(observer);
}
void BatchEngine::set_pass_observer(PassObserver* observer) {
  impl_->pass_observer_ = observer;
}
void BatchEngine::set_logits_observer(LogitsObserver observer) {
  impl_->logits_observer_ = std::move(observer);
}

}  // namespace tinyloop::engine
