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
  // Any thread. False: the lane is closed, and the node is not in it.
  bool push(T& item) noexcept {
    LaneNode<Tag>& node = item;
    LaneNode<Tag>* head = head_.load(std::memory_order_relaxed);
    do {
      if (head == &closed_) return false;
      node.next_in_lane = head;
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_release,
                                          std::memory_order_relaxed));
    return true;
  }

  // The consumer alone: takes everything and calls visit(T&) in the order of the pushes. `visit`
  // may destroy the node or push it again, and must not throw.
  template <class Visit>
  void drain(Visit&& visit) {
    if (head_.load(std::memory_order_relaxed) == &closed_) return;
    visit_all(head_.exchange(nullptr, std::memory_order_acquire), visit);
  }

  // The consumer alone: drains for the last time. No push succeeds afterwards.
  template <class Visit>
  void close(Visit&& visit) {
    LaneNode<Tag>* const last = head_.exchange(&closed_, std::memory_order_acquire);
    if (last != &closed_) visit_all(last, visit);
  }

 private:
  template <class Visit>
  static void visit_all(LaneNode<Tag>* node, Visit& visit) {
    node = reversed(node);
    while (node) {
      T& item = static_cast<T&>(*node);
      node = std::exchange(node->next_in_lane, nullptr);
      visit(item);
    }
  }

  static LaneNode<Tag>* reversed(LaneNode<Tag>* node) {
    LaneNode<Tag>* result = nullptr;
    while (node) {
      LaneNode<Tag>* const next = std::exchange(node->next_in_lane, result);
      result = std::exchange(node, next);
    }
    return result;
  }

  LaneNode<Tag> closed_;  // its address marks a closed lane
  std::atomic<LaneNode<Tag>*> head_{nullptr};
};

}  // namespace tinyloop::actors
