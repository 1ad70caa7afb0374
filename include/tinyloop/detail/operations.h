// What the templates of the public headers call: one function per operation, in the library.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tinyloop/detail/completion.h"
#include "tinyloop/detail/export.h"
#include "tinyloop/options.h"
#include "tinyloop/shutdown.h"

namespace tinyloop::actors {
class EngineState;
class ModelState;
class StreamHandle;
}  // namespace tinyloop::actors

namespace tinyloop::detail {

using EngineRef = std::shared_ptr<actors::EngineState>;
using ModelRef = std::shared_ptr<actors::ModelState>;
using StreamRef = std::shared_ptr<actors::StreamHandle>;
using OnChunk = std::function<void(const StreamChunk&)>;

// Where handlers without an executor run. Asio's system executor for an empty reference.
TINYLOOP_API boost::asio::any_io_executor default_executor(const EngineRef& engine);
TINYLOOP_API boost::asio::any_io_executor default_executor(const ModelRef& model);
TINYLOOP_API boost::asio::any_io_executor default_executor(const StreamRef& stream);

// Each posts its completion exactly once, whatever happens.
TINYLOOP_API void load(const EngineRef& engine, std::string path, ModelOptions options,
                       Completion<Model> completion);
TINYLOOP_API void shutdown(const EngineRef& engine, ShutdownMode mode, Completion<> completion);
TINYLOOP_API void generate(const ModelRef& model, const GenerateRequest& request,
                           Completion<GenerateResult> completion);
TINYLOOP_API void generate(const ModelRef& model, const GenerateRequest& request, OnChunk on_chunk,
                           Completion<GenerateResult> completion);
TINYLOOP_API void score(const ModelRef& model, const ScoreRequest& request,
                        Completion<ScoreResult> completion);
TINYLOOP_API void build(const ModelRef& model, const PrefixRequest& request,
                        Completion<PrefixCache> completion);
TINYLOOP_API void build(const ModelRef& model, const ResumeRequest& request,
                        Completion<ResumeHandle> completion);
TINYLOOP_API void deepen(const ModelRef& model, const DeepenRequest& request,
                         Completion<ResumeHandle> completion);
TINYLOOP_API void release(const ReuseHandle& handle, Completion<> completion);
TINYLOOP_API void register_prefix(const ModelRef& model, const PoolRef& pool,
                                  const PrefixRequest& request, Completion<int32_t> completion);
TINYLOOP_API void pool_entry(const ModelRef& model, const PoolRef& pool, int32_t id,
                             Completion<PoolEntryInfo> completion);
TINYLOOP_API void trim(const ModelRef& model, Completion<size_t> completion);
TINYLOOP_API void drain_replica(const ModelRef& model, size_t replica, Completion<> completion);
TINYLOOP_API void reload_replica(const ModelRef& model, size_t replica, Completion<> completion);
TINYLOOP_API void read_trace(const ModelRef& model, size_t replica, Completion<Trace> completion);
TINYLOOP_API void unload(const ModelRef& model, ShutdownMode mode, Completion<> completion);
TINYLOOP_API void next_chunk(const StreamRef& stream, Completion<StreamChunk> completion);

}  // namespace tinyloop::detail
