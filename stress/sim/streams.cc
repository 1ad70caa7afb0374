// Streams and their readers, some of which are slow.
#include <utility>

#include "stress/sim/clients.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

bool Clients::open_stream() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::stream, *slot);
  const GenerateRequest request = draw_generation(op);
  const Model model = slot->model;
  begin_call(op);
  op.stream = model.stream(request);
  end_call(op);
  return true;
}

Op* Clients::some_stream(bool (*fits)(const Op&)) {
  std::vector<Op*> found;
  for (const auto& op : ops_) {
    if (op->kind == OpKind::stream && op->initiated && !op->dropped && !op->busy && fits(*op)) {
      found.push_back(op.get());
    }
  }
  return found.empty() ? nullptr : random_.of(found);
}

bool Clients::read_stream() {
  Op* const op = some_stream([](const Op& each) { return !each.ended; });
  if (!op) return false;
  if (op->reading && !random_.one_in(10)) return false;
  return read(*op);
}

bool Clients::read(Op& op) {
  if (op.reading) {
    op.stream.async_next(bound_read(op, nullptr, [&op](error_code error, const StreamChunk&) {
      if (error != errc::stream_busy) fail(op, "a second async_next was not refused");
    }));
    return true;
  }
  trace_op(op, "is read");
  op.reading = true;
  op.read_signal = std::make_unique<boost::asio::cancellation_signal>();
  op.read_cancelled = false;
  op.busy = true;
  op.stream.async_next(
      bound_read(op, op.read_signal.get(), [this, &op](error_code error, const StreamChunk& chunk) {
        op.reading = false;
        take_chunk(op, error, chunk);
      }));
  op.busy = false;
  return true;
}

void Clients::take_chunk(Op& op, const error_code& error, const StreamChunk& chunk) {
  if (is_verbose()) {
    trace_op(op, error ? error.message() : std::to_string(chunk.tokens.size()) + " tokens more");
  }
  if (error == errc::operation_aborted && (op.read_cancelled || op.dropped)) {
    op.aborted_unseen = op.cancelled;  // the read's end, or that of the request, which is the same
    return;
  }
  if (error == errc::end_of_stream && op.aborted_unseen && !op.ended) {
    ++op.completions;
    return complete(op, boost::asio::error::operation_aborted, {});
  }
  if (op.ended) {
    if (error != errc::end_of_stream) fail(op, "something comes after the end of the stream");
    return;
  }
  if (error) {
    ++op.completions;
    judge_error(op, error, now());
    return complete(op, error, {});
  }
  op.got.insert(op.got.end(), chunk.tokens.begin(), chunk.tokens.end());
  judge_tokens(op, op.got);
  if (chunk.tokens.empty() && !chunk.summary) fail(op, "a chunk of nothing");
  if (!chunk.summary) return;
  ++op.completions;
  const StreamChunk::Summary& summary = *chunk.summary;
  judge_error(op, {}, now());
  if (summary.generated_tokens != op.got.size() || summary.prompt_tokens != op.tokens.size()) {
    fail(op, "the summary counts other tokens than have come");
  }
  judge_end(op, op.got, summary.finish_reason, summary.loops, summary.timings, now());
  complete(op, {}, to_string(summary.finish_reason));
}

bool Clients::cancel_read() {
  Op* const op = some_stream([](const Op& each) { return each.reading; });
  if (!op) return false;
  op->read_cancelled = true;
  op->read_signal->emit(boost::asio::cancellation_type::partial);
  return true;
}

bool Clients::cancel_stream() {
  Op* const op = some_stream([](const Op& each) { return !each.ended; });
  if (!op) return false;
  note_cancel(*op);
  op->stream.cancel();
  return true;
}

bool Clients::drop_stream() {
  Op* const op = some_stream([](const Op&) { return true; });
  if (!op) return false;
  drop(*op);
  return true;
}

void Clients::drop(Op& op) {
  trace_op(op, "dropped");
  if (!op.ended) {
    note_cancel(op);
    tally_.count(op.kind, "dropped");
  }
  op.dropped = true;
  op.stream = TokenStream();
}

}  // namespace tinyloop::sim
