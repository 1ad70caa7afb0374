// How expected failures travel inside the library: a code and a sentence, returned by value.
#pragma once

#include <boost/system/result.hpp>
#include <exception>
#include <string>
#include <utility>

#include "tinyloop/errc.h"

namespace tinyloop::base {

// `detail` says what failed, where, with which value, against which bound.
struct Error {
  errc code = errc::internal;
  std::string detail;
};

// The exception form of an Error. It stays inside the library: thrown where unwinding is the
// clearest way out (parsing, loading, a broken invariant), caught at the next layer's border.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  Failure(errc code, std::string detail) : error_{code, std::move(detail)} {}
  const Error& error() const noexcept { return error_; }
  const char* what() const noexcept override { return error_.detail.c_str(); }

 private:
  Error error_;
};

// Lets boost::system::result<T, Error>::value() throw Failure. Found by argument-dependent lookup.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location&);

template <class T>
using Result = boost::system::result<T, Error>;

}  // namespace tinyloop::base
