#include "actors/resident_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace tinyloop::actors {

namespace {

engine::PrefixKey key_of(const engine::SequenceRequest& request) {
  return {.loops = request.loops, .window = request.window};
}

// How many positions a match gives: the last token is always computed, save where the prefix ends
// with it.
int32_t usable(const engine::PrefixIndex::Match& match, const engine::SequenceRequest& request) {
  const auto length = int32_t(request.tokens.size());
  if (match.whole && request.kind == engine::SequenceKind::generate) return match.length;
  const int32_t positions = std::min(match.length, length - 1);
  return request.window > 0 && positions < match.length ? 0 : positions;
}

}  // namespace

bool PendingPrefix::serves(const engine::SequenceRequest& request, engine::PrefixKey key) const {
  return key == key_ && tokens_.size() <= request.tokens.size() &&
         std::equal(tokens_.begin(), tokens_.end(), request.tokens.begin());
}

ResidentPool::ResidentPool(std::shared_ptr<PoolBook> book, engine::BatchEngine& engine)
    : book_(std::move(book)),
      engine_(engine),
      index_({.entries = book_->options.capacity, .bytes = book_->options.capacity_bytes}) {}

ResidentPool::~ResidentPool() {
  update_book(0, 0);
}

template <class Make>
void ResidentPool::tell(Make&& make) const {
  if (book_->observer) book_->observer(make());
}

PendingPrefix* ResidentPool::better_pending(const engine::SequenceRequest& request) {
  const engine::PrefixKey key = key_of(request);
  PendingPrefix* best = nullptr;
  for (PendingPrefix& pending : pending_) {
    if (!pending.serves(request, key)) continue;
    if (!best || best->tokens().size() < pending.tokens().size()) best = &pending;
  }
  if (!best) return nullptr;
  const auto match = index_.find(request.tokens, key);
  return match && size_t(usable(*match, request)) >= best->tokens().size() ? nullptr : best;
}

std::optional<int32_t> ResidentPool::find_registered(const engine::SequenceRequest& request) {
  const auto id = index_.exact(request.tokens, key_of(request));
  if (!id) return std::nullopt;
  index_.touch(*id);
  tell([&] {
    return PoolEvent{.kind = PoolEvent::Kind::found,
                     .key = key_of(request),
                     .tokens = request.tokens,
                     .id = *id};
  });
  return id;
}

void ResidentPool::serve(Operation& operation) {
  engine::SequenceRequest& request = operation.request;
  const auto match = index_.find(request.tokens, key_of(request));
  const int32_t positions = match ? usable(*match, request) : 0;
  const bool generates = request.kind == engine::SequenceKind::generate;
  if (positions > 0) {
    request.base = prefixes_.at(size_t(match->id));
    request.base_positions = positions;
    request.base_loops = request.loops;
    if (generates) index_.touch(match->id);
  } else if (generates && !book_->options.automatic) {
    if (const auto other = index_.find_at_other_loops(request.tokens, key_of(request))) {
      throw base::Failure(errc::loop_mismatch,
                          "loops: " + std::to_string(request.loops) +
                              ", the pool's prefix of this prompt was computed at " +
                              std::to_string(index_.info(other->id)->key.loops));
    }
  }
  if (!generates) return;
  ++(positions > 0 ? book_->hits : book_->misses);
  book_->tokens_saved += uint64_t(positions);
  tell([&] {
    return PoolEvent{.kind = PoolEvent::Kind::looked_up,
                     .key = key_of(request),
                     .tokens = request.tokens,
                     .id = positions > 0 ? match->id : 0,
                     .positions = positions};
  });
}

void ResidentPool::expect(Operation& operation) {
  engine::SequenceRequest& request = operation.request;
  const bool registers = operation.pool.registers;
  if (!registers &&
      (!book_->options.automatic || index_.exact(request.tokens, key_of(request)).has_value())) {
    return;
  }
  const size_t bytes = engine_.prefix_sizes().bytes_of(shape_of(request)).total();
  if (!index_.could_fit(bytes)) {
    if (!registers) return;
    throw base::Failure(errc::out_of_memory, "the prefix takes " + std::to_string(bytes) +
                                                 " bytes, the pool's capacity_bytes is " +
                                                 std::to_string(book_->options.capacity_bytes));
  }
  operation.pool.pending = &pending_.emplace_back(request.tokens, key_of(request));
  request.keep = engine::KeepRequest{engine::PrefixState::final_row, request.loops};
}

void ResidentPool::publish(Operation& operation) {
  const PendingPrefix& pending = *operation.pool.pending;
  const engine::PrefixId kept = std::exchange(operation.pool.kept, 0);
  engine::CachedPrefixRef prefix = engine_.find_prefix(kept);
  engine_.drop_prefix(kept);  // from here on it is the pool's alone
  const size_t bytes = engine_.prefix_sizes().bytes_of(prefix->shape()).total();
  // An entry must not stand there without its prefix: the room for that comes first. The new id is
  // the smallest that is free.
  prefixes_.resize(std::max(prefixes_.size(), index_.size() + 2));
  const auto inserted = index_.insert(pending.tokens(), pending.key(), bytes);
  for (const int32_t id : inserted.evicted) prefixes_[size_t(id)].reset();
  prefixes_[size_t(inserted.id)] = std::move(prefix);
  operation.pool.id = inserted.id;
  ++book_->registered;
  book_->evicted += inserted.evicted.size();
  update_book(index_.size(), index_.bytes());
  tell([&] {
    return PoolEvent{.kind = PoolEvent::Kind::inserted,
                     .key = pending.key(),
                     .tokens = pending.tokens(),
                     .id = inserted.id,
                     .positions = int32_t(pending.tokens().size()),
                     .evicted = inserted.evicted};
  });
}

void ResidentPool::settle(Operation& operation, OperationList& ready) {
  PendingPrefix* const pending = std::exchange(operation.pool.pending, nullptr);
  for (Operation& waiter : pending->waiters) waiter.pool.parked_in = &ready;
  ready.splice(ready.end(), pending->waiters);
  pending_.remove_if([&](const PendingPrefix& each) { return &each == pending; });
}

void ResidentPool::make_room(const engine::PrefixShape& shape) {
  const engine::HandleExcess excess = engine_.handle_excess(shape);
  if (excess.count > index_.size() || excess.bytes > index_.bytes()) return;
  while (engine_.handle_excess(shape).any() && yield_one()) {
  }
}

bool ResidentPool::yield_one() {
  if (index_.size() == 0) return false;
  const int32_t id = index_.oldest_first().front();
  index_.erase(id);
  prefixes_[size_t(id)].reset();
  ++book_->evicted;
  update_book(index_.size(), index_.bytes());
  tell([&] { return PoolEvent{.kind = PoolEvent::Kind::yielded, .id = id}; });
  return true;
}

PoolEntryInfo ResidentPool::info(int32_t id) {
  const auto found = index_.info(id);
  tell([&] {
    return PoolEvent{.kind = PoolEvent::Kind::asked,
                     .key = found ? found->key : engine::PrefixKey{},
                     .id = id,
                     .positions = found ? found->length : 0};
  });
  if (!found) return {};
  return {.live = true,
          .positions = found->length,
          .loops = found->key.loops,
          .cache_window = found->key.window,
          .bytes = found->bytes,
          .hits = found->hits};
}

engine::PrefixShape ResidentPool::shape_of(const engine::SequenceRequest& request) const {
  return {.positions = int32_t(request.tokens.size()),
          .loops = request.loops,
          .window = request.window,
          .max_loops = request.loops};
}

void ResidentPool::update_book(size_t entries, size_t bytes) {
  book_->entries += entries - std::exchange(told_entries_, entries);
  book_->bytes += bytes - std::exchange(told_bytes_, bytes);
}

}  // namespace tinyloop::actors
