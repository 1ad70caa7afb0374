// A generation that hands its parts to a callback as they come: a loop of async_next over a stream,
// on the handler's executor.
#pragma once

#include <memory>
#include <utility>

#include "actors/submit.h"
#include "tinyloop/detail/operations.h"

namespace tinyloop::actors {

class ChunkPump : public std::enable_shared_from_this<ChunkPump> {
 public:
  static void start(const ModelRef& model, const GenerateRequest& request, detail::OnChunk on_chunk,
                    detail::Completion<GenerateResult> completion);

  explicit ChunkPump(detail::OnChunk on_chunk) : on_chunk_(std::move(on_chunk)) {}
  ChunkPump(const ChunkPump&) = delete;
  ChunkPump& operator=(const ChunkPump&) = delete;
  ~ChunkPump();

 private:
  void begin(const ModelRef& model, const GenerateRequest& request);
  void next();
  void take(error_code error, StreamChunk chunk);
  void show(const StreamChunk& chunk);
  bool collect(StreamChunk chunk);  // false: no memory
  void fail_for_memory();
  void complete(error_code error);

  detail::OnChunk on_chunk_;  // empty after it has thrown
  detail::Completion<GenerateResult> completion_;
  base::LogSink log_;
  boost::intrusive_ptr<StreamOperation> stream_;
  GenerateResult result_;
  std::shared_ptr<void> chain_;  // the engine waits for what runs on its own thread
};

}  // namespace tinyloop::actors
