// How errors look to callers: boost::system::error_code, compared with the conditions of errc.h.
//
//   if (error == tinyloop::errc::overloaded) retry_later();
//   log(error.message());   // "overloaded: mailbox holds 1024 of 1024 requests"
//
// A code's value holds the condition in its low 8 bits and, above them, the number of the sentence
// that says what failed, where, and against which bound. Sentences are kept in one table for the
// process, the latest 4,096 of them; an older code falls back to the general sentence of its
// condition. So compare codes with conditions, never by value.
//
// A request that was cancelled before it had begun completes with boost::asio's own
// operation_aborted, and a stream ends with boost::asio's eof; both compare equal to the
// conditions of the same meaning here.
#pragma once

#include <boost/system/error_code.hpp>

#include "tinyloop/detail/export.h"
#include "tinyloop/errc.h"

namespace tinyloop {

using error_code = boost::system::error_code;

// The category "tinyloop". Any thread, at any time, also while the process ends.
TINYLOOP_API const boost::system::error_category& error_category() noexcept;

TINYLOOP_API boost::system::error_condition make_error_condition(errc condition) noexcept;

// The condition that `error` is equal to, for a switch. errc::internal for codes that are neither
// TinyLoop's nor one of the two of boost::asio named above.
TINYLOOP_API errc errc_of(const error_code& error) noexcept;

}  // namespace tinyloop

template <>
struct boost::system::is_error_condition_enum<tinyloop::errc> : std::true_type {};
