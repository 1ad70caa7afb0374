#include "actors/chunk_pump.h"

#include <boost/asio/bind_executor.hpp>
#include <iterator>
#include <new>
#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

void ChunkPump::start(const ModelRef& model, const GenerateRequest& request,
                      detail::OnChunk on_chunk, detail::Completion<GenerateResult> completion) {
  std::shared_ptr<ChunkPump> pump;
  try {
    pump = std::make_shared<ChunkPump>(std::move(on_chunk));
    pump->completion_ = std::move(completion);
    pump->begin(model, request);
  } catch (...) {
    auto& owned = pump && pump->completion_ ? pump->completion_ : completion;
    owned.post(make_error(current_error("submit")), {});
  }
}

// Before the end: an executor has died, or the start has failed. Nobody reads on.
ChunkPump::~ChunkPump() {
  if (stream_) stream_->request_cancel();
}

void ChunkPump::begin(const ModelRef& model, const GenerateRequest& request) {
  completion_.keep(model);
  if (model) {
    log_ = model->replica().context()->log;
    chain_ = model->engine().hold_chain(completion_.executor());
  }
  stream_ = start_stream(model, request, &result_.tokens);
  let_cancel(completion_.slot(), stream_);
  next();
}

void ChunkPump::next() {
  const auto& executor = completion_.executor();
  auto handler = [self = shared_from_this()](error_code error, StreamChunk chunk) {
    self->take(error, std::move(chunk));
  };
  stream_->next({boost::asio::bind_executor(executor, std::move(handler)), executor});
}

// On the handler's executor, like all that follows.
void ChunkPump::take(error_code error, StreamChunk chunk) {
  if (error) return complete(error);
  show(chunk);
  const bool is_last = chunk.summary.has_value();
  if (!collect(std::move(chunk))) return fail_for_memory();
  if (is_last) return complete({});
  try {
    next();
  } catch (const std::bad_alloc&) {
    fail_for_memory();
  }
}

void ChunkPump::show(const StreamChunk& chunk) {
  if (!on_chunk_) return;
  try {
    on_chunk_(chunk);
  } catch (...) {
    log_(base::LogLevel::error, current_error("exception out of on_chunk").detail);
    on_chunk_ = nullptr;
    stream_->request_cancel();
  }
}

bool ChunkPump::collect(StreamChunk chunk) try {
  result_.tokens.insert(result_.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  result_.text += chunk.text;
  std::move(chunk.logprobs.begin(), chunk.logprobs.end(), std::back_inserter(result_.logprobs));
  if (!chunk.summary) return true;
  result_.finish_reason = chunk.summary->finish_reason;
  result_.prompt_tokens = chunk.summary->prompt_tokens;
  result_.loops = chunk.summary->loops;
  result_.timings = chunk.summary->timings;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void ChunkPump::fail_for_memory() {
  stream_->request_cancel();
  complete(make_error(errc::out_of_memory, "no host memory for the result"));
}

void ChunkPump::complete(error_code error) {
  stream_.reset();
  if (error) result_ = {};
  completion_.invoke(error, std::move(result_));
}

}  // namespace tinyloop::actors
