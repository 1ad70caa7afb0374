#include "actors/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "actors/inbox.h"

namespace tinyloop::actors {
namespace {

class NullOperation final : public Operation {
 public:
  NullOperation(int64_t number, WhenFull when_full, std::shared_ptr<Inbox> inbox = nullptr)
      : Operation(std::move(inbox), {}, {std::nullopt, when_full}), number_(number) {}
  int64_t number() const { return number_; }

 private:
  void deliver(OnThread) noexcept override {}
  const boost::asio::any_io_executor& executor() const noexcept override { return nowhere_; }
  void open() override {}
  void lose() noexcept override {}

  const boost::asio::any_io_executor nowhere_;
  const int64_t number_;
};

OperationPtr make(int64_t number, WhenFull when_full = WhenFull::fail) {
  return OperationPtr(new NullOperation(number, when_full));
}

std::vector<int64_t> drain(Mailbox& mailbox) {
  std::vector<int64_t> numbers;
  mailbox.drain([&](auto& message) {
    if constexpr (std::is_same_v<decltype(message), Run&>)
      numbers.push_back(static_cast<NullOperation&>(*message.operation).number());
  });
  return numbers;
}

TEST(Mailbox, KeepsTheOrderAndTheBound) {
  Mailbox mailbox(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(mailbox.send(make(i)), Sent::accepted);
  EXPECT_EQ(mailbox.send(make(3)), Sent::full);
  EXPECT_EQ(mailbox.queued(), 3u);
  EXPECT_EQ(drain(mailbox), (std::vector<int64_t>{0, 1, 2}));
  // Taken out is not begun: they still count.
  EXPECT_EQ(mailbox.send(make(4)), Sent::full);
  mailbox.left_queue();
  EXPECT_EQ(mailbox.send(make(5)), Sent::accepted);
  EXPECT_EQ(drain(mailbox), (std::vector<int64_t>{5}));
}

TEST(Mailbox, RefillDoesNotKeepTheReader) {
  Mailbox mailbox(4);
  EXPECT_EQ(mailbox.send(make(0)), Sent::accepted);
  int taken = 0;
  mailbox.drain([&](auto&) {
    ++taken;
    mailbox.left_queue();
    EXPECT_EQ(mailbox.send(make(taken)), Sent::accepted);
  });
  EXPECT_EQ(taken, 4 + int(Mailbox::kAdminRoom));
}

TEST(ControlLane, AfterCloseNothingIsKept) {
  ControlLane lane;
  const OperationPtr before = make(1), after = make(2);
  lane.post(*before);
  EXPECT_EQ(before->use_count(), 2u);
  lane.close();
  lane.post(*after);
  EXPECT_EQ(before->use_count(), 1u);
  EXPECT_EQ(after->use_count(), 1u);
  lane.drain([](Operation&) { FAIL() << "the lane is closed"; });
}

TEST(Mailbox, WaitersAreNeverRefusedAndGoBeforeLaterRequests) {
  Mailbox mailbox(2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(mailbox.send(make(i, WhenFull::wait)), Sent::accepted);
  EXPECT_EQ(mailbox.queued(), 100u);
  mailbox.left_queue();
  EXPECT_EQ(mailbox.send(make(100)), Sent::full);
  const auto numbers = drain(mailbox);
  ASSERT_EQ(numbers.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(numbers[size_t(i)], i);
}

TEST(Mailbox, AdministrationHasRoomOfItsOwn) {
  Mailbox mailbox(1);
  ASSERT_EQ(mailbox.send(make(0)), Sent::accepted);
  for (size_t i = 0; i < Mailbox::kAdminRoom; ++i) {
    auto message = std::make_unique<Message>(Visit{});
    EXPECT_EQ(mailbox.send(message), Sent::accepted);
    EXPECT_EQ(message, nullptr);
  }
  auto message = std::make_unique<Message>(Visit{});
  EXPECT_EQ(mailbox.send(message), Sent::full);
  EXPECT_NE(message, nullptr);
  drain(mailbox);
  EXPECT_EQ(mailbox.send(message), Sent::accepted);
}

TEST(Mailbox, ClosedRefusesEverything) {
  Mailbox mailbox(4);
  ASSERT_EQ(mailbox.send(make(0)), Sent::accepted);
  mailbox.close();
  EXPECT_EQ(mailbox.send(make(1)), Sent::closed);
  EXPECT_EQ(mailbox.send(make(2, WhenFull::wait)), Sent::closed);
  EXPECT_EQ(drain(mailbox), (std::vector<int64_t>{0}));
}

TEST(Mailbox, GivesUpWhatItHoldsWhenItDies) {
  const OperationPtr in_queue = make(0);
  const OperationPtr in_lane = make(1, WhenFull::wait);
  {
    Mailbox mailbox(1);
    ASSERT_EQ(mailbox.send(in_queue), Sent::accepted);
    ASSERT_EQ(mailbox.send(in_lane), Sent::accepted);
    EXPECT_EQ(in_queue->use_count(), 2u);
    EXPECT_EQ(in_lane->use_count(), 2u);
  }
  EXPECT_EQ(in_queue->use_count(), 1u);
  EXPECT_EQ(in_lane->use_count(), 1u);
}

// Every accepted message arrives once, each sender's in order, whatever the moment of the close.
TEST(Mailbox, ManySendersAndAClose) {
  constexpr int kSenders = 4, kEach = 5000;
  auto inbox = std::make_shared<Inbox>(64);
  std::atomic<int> accepted{0}, running{kSenders};
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int64_t i = 0; i < kEach; ++i) {
        auto operation = make(int64_t(sender) * kEach + i, i % 3 ? WhenFull::fail : WhenFull::wait);
        const Sent sent = inbox->send(operation);
        if (sent == Sent::accepted) ++accepted;
        if (sent == Sent::closed) break;
      }
      --running;
      inbox->waker.wake();
    });
  }
  std::map<int64_t, int> arrived;
  for (bool closing = false;;) {
    const uint32_t epoch = inbox->waker.epoch();
    if (closing || running.load() == 0 || arrived.size() > 3 * kEach) {
      inbox->mailbox.close();
      closing = true;
    }
    for (int64_t number : drain(inbox->mailbox)) {
      ++arrived[number];
      inbox->mailbox.left_queue();
    }
    if (closing) break;
    inbox->waker.park(epoch);
  }
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(int(arrived.size()), accepted.load());
  for (const auto& [number, count] : arrived) EXPECT_EQ(count, 1) << number;
  EXPECT_EQ(inbox->mailbox.queued(), 0u);
}

TEST(ControlLane, ASecondCancelIsNotPosted) {
  auto inbox = std::make_shared<Inbox>(4);
  const OperationPtr operation(new NullOperation(0, WhenFull::fail, inbox));
  operation->request_cancel();
  operation->request_cancel();
  int visits = 0;
  inbox->cancels.drain([&](Operation&) { ++visits; });
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(operation->use_count(), 1u);
  EXPECT_TRUE(operation->cancel_requested());
}

TEST(ControlLane, ACancelAfterTheEndDoesNothing) {
  auto inbox = std::make_shared<Inbox>(4);
  const OperationPtr operation(new NullOperation(0, WhenFull::fail, inbox));
  operation->end({});
  operation->complete(OnThread::callers);
  operation->request_cancel();
  int visits = 0;
  inbox->cancels.drain([&](Operation&) { ++visits; });
  EXPECT_EQ(visits, 0);
}

}  // namespace
}  // namespace tinyloop::actors
