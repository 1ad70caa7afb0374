#include "actors/error.h"

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include "actors/error_details.h"

namespace tinyloop::actors {
namespace {

TEST(Error, ComparesWithItsConditionAlone) {
  const error_code error = make_error(errc::overloaded, "mailbox holds 8 of 8 requests");
  EXPECT_TRUE(error == errc::overloaded);
  EXPECT_TRUE(error != errc::out_of_memory);
  EXPECT_FALSE(error == errc::ok);
  EXPECT_EQ(errc_of(error), errc::overloaded);
  EXPECT_STREQ(error.category().name(), "tinyloop");
}

TEST(Error, MessageHasTheSentence) {
  const error_code error = make_error(errc::overloaded, "mailbox holds 8 of 8 requests");
  EXPECT_EQ(error.message(), "overloaded: mailbox holds 8 of 8 requests");
  EXPECT_EQ(make_error(errc::io_error, "").message(), "input/output error");
  const boost::system::system_error thrown(error);
  EXPECT_NE(std::string(thrown.what()).find("mailbox holds 8 of 8"), std::string::npos);
}

TEST(Error, AnOldCodeFallsBackToTheGeneralSentence) {
  const error_code old = make_error(errc::bad_model_file, "the first");
  for (uint32_t i = 0; i < ErrorDetails::kSlots; ++i) make_error(errc::io_error, "another");
  EXPECT_EQ(old.message(), "bad model file");
  EXPECT_TRUE(old == errc::bad_model_file);
}

TEST(Error, AsiosCodesStandForThemselves) {
  const error_code aborted = make_error(errc::operation_aborted, "unused");
  EXPECT_EQ(aborted, boost::asio::error::operation_aborted);
  EXPECT_TRUE(aborted == errc::operation_aborted);
  EXPECT_FALSE(aborted == errc::end_of_stream);
  EXPECT_EQ(errc_of(aborted), errc::operation_aborted);
  const error_code ended = make_error(errc::end_of_stream, "unused");
  EXPECT_EQ(ended, boost::asio::error::eof);
  EXPECT_TRUE(ended == errc::end_of_stream);
  EXPECT_EQ(errc_of(ended), errc::end_of_stream);
}

TEST(Error, SuccessAndForeignCodes) {
  EXPECT_TRUE(error_code() == errc::ok);
  EXPECT_EQ(errc_of(error_code()), errc::ok);
  EXPECT_EQ(errc_of(boost::asio::error::connection_refused), errc::internal);
  EXPECT_FALSE(error_code(boost::asio::error::connection_refused) == errc::ok);
}

TEST(Error, SwitchesOverEveryCondition) {
  for (int value = 1; value <= static_cast<int>(errc::internal); ++value) {
    const auto condition = static_cast<errc>(value);
    const error_code error = make_error(condition, "detail");
    EXPECT_EQ(errc_of(error), condition);
    EXPECT_TRUE(error == condition) << value;
    EXPECT_NE(error.message(), "unknown error");
  }
}

TEST(ErrorDetails, NumbersWrapWithoutZero) {
  ErrorDetails table;
  EXPECT_EQ(table.store(""), 0u);
  const uint32_t first = table.store("first");
  EXPECT_EQ(first, 1u);
  for (uint32_t i = 2; i < ErrorDetails::kNumbers; ++i) table.store("x");
  EXPECT_EQ(table.store("after"), 1u);
  EXPECT_EQ(table.find(1), "after");
  EXPECT_EQ(table.find(0), std::nullopt);
}

TEST(Error, CurrentErrorSaysWhatWasThrown) {
  const auto caught = [](auto thrown) {
    try {
      throw thrown;
    } catch (...) {
      return current_error("step");
    }
  };
  EXPECT_EQ(caught(base::Failure(errc::bad_model_file, "d")).detail, "step: d");
  EXPECT_EQ(caught(base::Failure(errc::bad_model_file, "d")).code, errc::bad_model_file);
  EXPECT_EQ(caught(std::bad_alloc()).code, errc::out_of_memory);
  EXPECT_EQ(caught(std::runtime_error("r")).detail, "step: r");
  EXPECT_EQ(caught(7).code, errc::internal);
}

}  // namespace
}  // namespace tinyloop::actors
