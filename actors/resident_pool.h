// A pool as the replica holds it: its prefixes, those that are being computed, and the requests
// that wait for them. Replica thread only.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include "actors/operation.h"
#include "engine/batch_engine.h"
#include "engine/prefix_index.h"

namespace tinyloop::actors {

// A prefix that one request is computing, and who waits for it.
class PendingPrefix {
 public:
  PendingPrefix(std::vector<int32_t> tokens, engine::PrefixKey key)
      : tokens_(std::move(tokens)), key_(key) {}

  const std::vector<int32_t>& tokens() const { return tokens_; }
  engine::PrefixKey key() const { return key_; }
  // Whether it is, whole, a beginning of the request's tokens.
  bool serves(const engine::SequenceRequest& request, engine::PrefixKey key) const;

  OperationList waiters;

 private:
  std::vector<int32_t> tokens_;
  engine::PrefixKey key_;
};

class ResidentPool {
 public:
  ResidentPool(std::shared_ptr<PoolBook> book, engine::BatchEngine& engine);
  ~ResidentPool();
  ResidentPool(const ResidentPool&) = delete;
  ResidentPool& operator=(const ResidentPool&) = delete;

  // The longest pending prefix that would serve the request better than what is there; null: none.
  PendingPrefix* better_pending(const engine::SequenceRequest& request);
  // The id of a prefix that is exactly the request's tokens: a registration has been there before.
  std::optional<int32_t> find_registered(const engine::SequenceRequest& request);
  // Lets the request begin with the longest prefix that serves it. Throws base::Failure,
  // loop_mismatch.
  void serve(Operation& operation);
  // Notes that the request computes its tokens for the pool: explicitly, or because the pool is
  // automatic, has not got them and can hold them. Throws base::Failure(out_of_memory): a prefix to
  // be registered is larger than the pool.
  void expect(Operation& operation);

  // The request has computed its prefix: it is in the pool from now on.
  void publish(Operation& operation);
  // The request computes nothing for the pool any more, whether it has or not. Gives back who
  // waited.
  void settle(Operation& operation, OperationList& ready);

  // Lets the least recently used prefixes go where that makes room for a handle of this shape.
  void make_room(const engine::PrefixShape& shape);
  // The least recently used prefix goes. False: there is none.
  bool yield_one();
  size_t bytes() const { return index_.bytes(); }

  PoolEntryInfo info(int32_t id);
  // Of prefixes that are being computed.
  std::list<PendingPrefix>& pending() { return pending_; }

 private:
  engine::PrefixShape shape_of(const engine::SequenceRequest& request) const;
  template <class Make>
  void tell(Make&& make) const;
  void update_book(size_t entries, size_t bytes);

  const std::shared_ptr<PoolBook> book_;
  engine::BatchEngine& engine_;
  engine::PrefixIndex index_;
  std::vector<engine::CachedPrefixRef> prefixes_;  // by id
  std::list<PendingPrefix> pending_;
  size_t told_entries_ = 0, told_bytes_ = 0;  // this replica's part of the book's figures
};

}  // namespace tinyloop::actors
