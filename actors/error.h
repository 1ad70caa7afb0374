// Makes the error codes that callers see (tinyloop/error.h).
#pragma once

#include <new>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "tinyloop/error.h"

namespace tinyloop::actors {

// operation_aborted and end_of_stream become boost::asio's own codes, which have no room for a
// detail. Any thread.
error_code make_error(errc code, std::string detail) noexcept;
// Without host memory for the sentence, the code alone; so do the next ones.
error_code make_error(const base::Error& error) noexcept;

// With a sentence, or a function that makes one.
template <class Sentence>
base::Error with_sentence(errc code, const Sentence& sentence) noexcept {
  base::Error error{code, {}};
  try {
    if constexpr (std::is_invocable_v<const Sentence&>) {
      error.detail = sentence();
    } else {
      error.detail = sentence;
    }
  } catch (const std::bad_alloc&) {
  }
  return error;
}

// What the exception being handled says, as an Error: a Failure's own, out_of_memory for bad_alloc,
// internal for anything else. `where` begins the sentence, which is left out where there is no host
// memory for it. Only inside a catch clause.
base::Error current_error(const char* where) noexcept;
// The same for a request that is refused: a Failure's own words, without a `where`.
base::Error current_refusal(const char* where) noexcept;

}  // namespace tinyloop::actors
