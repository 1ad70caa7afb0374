// A multi-producer, single-consumer lane of nodes that bring their own link: a push cannot fail.
#pragma once

#include <atomic>
#include <utility>

namespace tinyloop::actors {

// The link of a node in the lane named by `Tag`. A node is in a lane at most once at a time.
template <class Tag>
struct LaneNode {
  LaneNode* next_in_lane = nullptr;
};

// T derives from LaneNode<Tag>. Lock-free; ABA cannot happen, for nodes leave all together.
template <class T, class Tag>
class Lane {
 public:
  // Any thread.
  void push(T& item) noexcept {
    LaneNode<Tag>& node = item;
    node.next_in_lane = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(node.next_in_lane, &node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }

  // The consumer alone: takes everything and calls visit(T&) in the order of the pushes. `visit`
  // may destroy the node or push it again.
  template <class Visit>
  void drain(Visit&& visit) {
    LaneNode<Tag>* node = reversed(head_.exchange(nullptr, std::memory_order_acquire));
    while (node) {
      T& item = static_cast<T&>(*node);
      node = std::exchange(node->next_in_lane, nullptr);
      visit(item);
    }
  }

 private:
  static LaneNode<Tag>* reversed(LaneNode<Tag>* node) {
    LaneNode<Tag>* result = nullptr;
    while (node) {
      LaneNode<Tag>* const next = std::exchange(node->next_in_lane, result);
      result = std::exchange(node, next);
    }
    return result;
  }

  std::atomic<LaneNode<Tag>*> head_{nullptr};
};

}  // namespace tinyloop::actors
