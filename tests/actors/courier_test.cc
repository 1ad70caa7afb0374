#include "actors/courier.h"

#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace tinyloop::actors {
namespace {

namespace asio = boost::asio;

struct Log {
  std::vector<int> opened, lost;
};

class Note final : public Parcel {
 public:
  Note(int number, asio::any_io_executor to, Log& log)
      : number_(number), to_(std::move(to)), log_(log) {
    set_address(to_);
  }

 private:
  const asio::any_io_executor& executor() const noexcept override { return to_; }
  void open() override { log_.opened.push_back(number_); }
  void lose() noexcept override { log_.lost.push_back(number_); }

  const int number_;
  const asio::any_io_executor to_;
  Log& log_;
};

boost::intrusive_ptr<Note> note(int number, asio::any_io_executor to, Log& log) {
  return boost::intrusive_ptr<Note>(new Note(number, std::move(to), log));
}

TEST(Courier, AnIoContextNeedsNoThreadOfTheCouriers) {
  asio::io_context io;
  Log log;
  Courier courier;  // nobody calls run()
  const auto parcel = note(1, io.get_executor(), log);
  courier.send(*parcel);
  EXPECT_EQ(io.run(), 1u);
  EXPECT_EQ(log.opened, (std::vector<int>{1}));
  courier.send(*parcel);  // again, in the same memory
  io.restart();
  EXPECT_EQ(io.run(), 1u);
  EXPECT_EQ(log.opened, (std::vector<int>{1, 1}));
  EXPECT_EQ(parcel->use_count(), 1u);
}

TEST(Courier, CarriesTheRestInTheOrderOfTheSends) {
  asio::io_context io;
  const auto strand = asio::make_strand(io);
  Log log;
  Courier courier;
  std::thread thread([&] { run(courier); });
  std::vector<int> sent;
  for (int i = 0; i < 100; ++i) {
    courier.send(*note(i, strand, log));
    sent.push_back(i);
  }
  courier.flush();
  io.run();  // all of them, for all have been posted
  EXPECT_EQ(log.opened, sent);
  courier.close();
  thread.join();
}

TEST(Courier, SendLastKeepsBehindWhatItHasNotPosted) {
  asio::io_context io;
  Log log;
  Courier courier;
  courier.send_last(*note(1, io.get_executor(), log));
  EXPECT_EQ(io.poll(), 0u);
  courier.close();
  run(courier);
  io.restart();
  EXPECT_EQ(io.run(), 1u);
  EXPECT_EQ(log.opened, (std::vector<int>{1}));
}

TEST(Courier, NothingIsLeftBehindWhenItEnds) {
  asio::io_context io;
  const auto strand = asio::make_strand(io);
  Log log;
  Courier courier;
  courier.send(*note(1, strand, log));
  courier.close();
  std::thread([&] { run(courier); }).join();
  courier.send(*note(2, strand, log));  // by this thread
  courier.flush();
  io.run();
  EXPECT_EQ(log.opened, (std::vector<int>{1, 2}));
}

TEST(Courier, AContextThatDiesLosesItsParcels) {
  auto io = std::make_unique<asio::io_context>();
  Log log;
  Courier courier;
  courier.send(*note(1, io->get_executor(), log));
  io.reset();
  EXPECT_TRUE(log.opened.empty());
  EXPECT_EQ(log.lost, (std::vector<int>{1}));
}

}  // namespace
}  // namespace tinyloop::actors
