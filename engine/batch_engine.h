// The single-threaded heart of a replica: holds the model and the sequences in progress, and runs
// passes of the shared block over all of them.
//
// Thread rule: everything is called by one thread (the replica's actor), save the const accessors
// marked "any thread". No locks, no threads, no futures in here.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "engine/memory_ledger.h"
#include "engine/prefix_store.h"
#include "engine/request.h"
#include "engine/sequence_client.h"
#include "kernels/backend.h"

namespace tinyloop::engine {

class PassObserver;
class Tokenizer;
struct ModelSpec;
struct PassCost;
struct StepPlan;

// What one step did.
struct StepOutcome {
  int32_t passes = 0;       // 0: no sequence had anything to run
  int32_t block_rows = 0;   // rows that went through the shared block, over all passes
  int32_t prompt_rows = 0;  // rows that entered as prompt
  int32_t generated_tokens = 0;
  int32_t preemptions = 0;
};

class BatchEngine {
 public:
  // Reads and verifies the file, then allocates: on failure nothing stays allocated.
  // `backend`, `ledger` and `log` must outlive the engine.
  // Errors: io_error, bad_model_file, unsupported_model, out_of_memory, invalid_argument.
  static base::Result<std::unique_ptr<BatchEngine>> load(const std::string& path,
                                                         const ModelOptions& options,
                                                         kernels::Backend& backend,
                                                         MemoryLedger& ledger,
                                                         const base::LogSink& log);
  ~BatchEngine();

  // Any thread; constant after the load.
  const RequestLimits& limits() const;
  const ModelSpec& spec() const;  // its `tensors` are empty: they end with the file
  const PassCost& pass_cost() const;
  std::shared_ptr<const Tokenizer> tokenizer() const;  // null: the file has none
  // K/V bytes of a request, in whole pages: its own, and those of the prefix that it begins with,
  // which nobody else can give back meanwhile. Of all its tokens, and of those that are reserved
  // for at admission (ModelOptions::reserve_tokens).
  size_t cache_bytes(const SequenceRequest& request) const;
  size_t admission_bytes(const SequenceRequest& request) const;

  // Budget for K/V pages. A request must hold its reservation before it is admitted; it is given
  // back when the sequence ends, or by SequenceRequest::let_go before that. False: there is no room
  // at the moment.
  bool could_ever_fit(size_t bytes) const;
  bool try_reserve(SequenceRequest& request);
  // Called by step() where the budget or the device has no page for rows that are to enter: gives
  // something back that no sequence in progress needs, and says whether there was anything. It may
  // call drop_prefix() and nothing else of the engine. Without it, or once it says no, the sequence
  // of the last rank is preempted: it gives back all it has, and begins again when memory has come
  // back, or when nobody else is in progress. One that is alone and finds no page fails.
  void set_relief(std::function<bool()> relief);

  // Sequences in progress, at most ModelOptions::max_sequences: whether one more of that rank may
  // join. Those who were preempted are among them, and nobody behind them may.
  bool has_room(int64_t rank) const;
  // Whether budget may be promised to a request of that rank: what there is of it is for those who
  // were preempted and go before it.
  bool may_have_budget(int64_t rank) const;
  size_t active() const;
  // How many of them are preempted at the moment.
  size_t preempted() const;
  // Takes over the request and its reservation. `client` must stay alive until it has been told
  // the end. Throws base::Failure(out_of_memory, overloaded) where a prefix to keep finds no room,
  // or what its choices take finds no memory, and std::bad_alloc; then the sequence was not
  // admitted and its reservation has been given back.
  SequenceId admit(SequenceRequest request, SequenceClient& client);
  // Ends a sequence now, with the tokens it has: pages go back at once and the client is told.
  // An id that has ended already is ignored.
  void finish(SequenceId id, FinishReason reason);
  // Ends every sequence with an error.
  void fail_all(const base::Error& error) noexcept;

  // One pass, or, where the backend runs ahead, all passes up to the next one in which rows leave:
  // until then nobody can join or be told anything. Tells clients about tokens and ends. A failure
  // of one sequence (out_of_memory) is told to its client; Failure thrown from here means the
  // replica can not go on.
  StepOutcome step();

  // Prefixes that sequences have kept (SequenceClient::on_prefix) live until they are dropped and
  // no sequence uses them. Null: there is no such prefix.
  CachedPrefixRef find_prefix(PrefixId id) const;
  void drop_prefix(PrefixId id);
  // Those that sequences in progress use end with them.
  void drop_prefixes() noexcept;
  // The number of the next prefix. An engine that follows another one in a replica goes on where
  // that one has stopped, before its first prefix.
  PrefixId next_prefix() const;
  void number_prefixes_from(PrefixId first);
  // How far one more prefix of this shape would go beyond the limits on handles.
  HandleExcess handle_excess(const PrefixShape& shape) const;
  // Any thread; constant after the load.
  const PrefixSizes& prefix_sizes() const;

  // Gives unused page slabs back to the device; returns the bytes.
  size_t trim();

  // Sees each plan before it is carried out (tests, dumps). Empty: off.
  void set_plan_observer(std::function<void(const StepPlan&)> observer);
  // Is told of each pass, and lets the clients of its rows be told (tracing); must outlive the
  // engine. Null: off.
  void set_pass_observer(PassObserver* observer);
  // Sees the logits behind each token (tests): the position of the row that gave them.
  using LogitsObserver = std::function<void(int32_t position, std::span<const float> logits)>;
  void set_logits_observer(LogitsObserver observer);

 private:
  class Impl;
  explicit BatchEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tinyloop::engine
