// Makes the error codes that callers see (tinyloop/error.h).
#pragma once

#include <string>

#include "base/error.h"
#include "tinyloop/error.h"

namespace tinyloop::actors {

// operation_aborted and end_of_stream become boost::asio's own codes, which have no room for a
// detail. Any thread.
error_code make_error(errc code, std::string detail) noexcept;
// Without host memory for the sentence: the code alone.
error_code make_error(const base::Error& error) noexcept;

// What the exception being handled says, as an Error: a Failure's own, out_of_memory for bad_alloc,
// internal for anything else. `where` begins the sentence, which is left out where there is no host
// memory for it. Only inside a catch clause.
base::Error current_error(const char* where) noexcept;
// The same for a request that is refused: a Failure's own words, without a `where`.
base::Error current_refusal(const char* where) noexcept;

}  // namespace tinyloop::actors
