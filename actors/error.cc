#include "actors/error.h"

#include <boost/asio/error.hpp>
#include <new>
#include <utility>

#include "actors/error_details.h"

namespace tinyloop {

namespace {

using boost::system::error_condition;

constexpr int kConditionBits = 8;

constexpr int condition_of(int value) {
  return value & ((1 << kConditionBits) - 1);
}

const char* general_sentence(errc condition) {
  switch (condition) {
    case errc::ok:
      return "success";
    case errc::invalid_argument:
      return "invalid argument";
    case errc::io_error:
      return "input/output error";
    case errc::bad_model_file:
      return "bad model file";
    case errc::unsupported_model:
      return "unsupported model";
    case errc::out_of_memory:
      return "out of memory";
    case errc::overloaded:
      return "overloaded";
    case errc::deadline_exceeded:
      return "deadline exceeded";
    case errc::operation_aborted:
      return "operation aborted";
    case errc::shutdown:
      return "shutting down";
    case errc::model_closed:
      return "model closed";
    case errc::replica_failed:
      return "replica failed";
    case errc::stream_busy:
      return "stream busy";
    case errc::end_of_stream:
      return "end of stream";
    case errc::internal:
      return "internal error";
    case errc::wrong_model:
      return "wrong model";
    case errc::handle_lost:
      return "handle lost";
    case errc::loop_mismatch:
      return "loop mismatch";
  }
  return "unknown error";
}

// boost's category has a protected destructor without `virtual`; nothing deletes one through it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class Category final : public boost::system::error_category {
 public:
  Category() : error_category(0x74696e796c6f6f70) {}  // "tinyloop"

  const char* name() const noexcept override { return "tinyloop"; }

  std::string message(int value) const override {
    std::string text = general_sentence(static_cast<errc>(condition_of(value)));
    const auto number = static_cast<uint32_t>(value) >> kConditionBits;
    if (auto detail = actors::ErrorDetails::instance().find(number)) text += ": " + *detail;
    return text;
  }

  error_condition default_error_condition(int value) const noexcept override {
    return {condition_of(value), *this};
  }

  bool equivalent(int value, const error_condition& condition) const noexcept override {
    return condition.category() == *this && condition_of(value) == condition.value();
  }

  bool equivalent(const error_code& error, int condition) const noexcept override {
    if (error.category() == *this) return condition_of(error.value()) == condition;
    if (condition == int(errc::ok)) return !error.failed();
    if (condition == int(errc::operation_aborted))
      return error == boost::asio::error::operation_aborted;
    return condition == int(errc::end_of_stream) && error == boost::asio::error::eof;
  }
};
#pragma GCC diagnostic pop

}  // namespace

const boost::system::error_category& error_category() noexcept {
  static const auto* const category = new Category;  // never destroyed, like the details
  return *category;
}

error_condition make_error_condition(errc condition) noexcept {
  return {static_cast<int>(condition), error_category()};
}

errc errc_of(const error_code& error) noexcept {
  if (!error) return errc::ok;
  if (error.category() == error_category()) return static_cast<errc>(condition_of(error.value()));
  if (error == errc::operation_aborted) return errc::operation_aborted;
  return error == errc::end_of_stream ? errc::end_of_stream : errc::internal;
}

namespace actors {

error_code make_error(errc code, std::string detail) noexcept {
  if (code == errc::operation_aborted) return boost::asio::error::operation_aborted;
  if (code == errc::end_of_stream) return boost::asio::error::eof;
  const uint32_t number = ErrorDetails::instance().store(std::move(detail));
  return {static_cast<int>(number << kConditionBits | static_cast<uint32_t>(code)),
          error_category()};
}

error_code make_error(const base::Error& error) noexcept {
  base::Error copy = with_sentence(error.code, error.detail);
  return make_error(copy.code, std::move(copy.detail));
}

namespace {

base::Error describe_current(const char* where) {
  const std::string prefix = std::string(where) + ": ";
  try {
    throw;
  } catch (const base::Failure& failure) {
    return {failure.error().code, prefix + failure.error().detail};
  } catch (const std::bad_alloc&) {
    return {errc::out_of_memory, prefix + "host memory is exhausted"};
  } catch (const std::exception& exception) {
    return {errc::internal, prefix + exception.what()};
  } catch (...) {
    return {errc::internal, prefix + "an exception of unknown type"};
  }
}

}  // namespace

base::Error current_error(const char* where) noexcept {
  try {
    return describe_current(where);
  } catch (...) {
    return {errc::out_of_memory, {}};
  }
}

base::Error current_refusal(const char* where) noexcept {
  try {
    throw;
  } catch (const base::Failure& failure) {
    return with_sentence(failure.error().code, failure.error().detail);
  } catch (...) {
    return current_error(where);
  }
}

}  // namespace actors

}  // namespace tinyloop
