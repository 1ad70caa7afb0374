// How the command line fails: one line on stderr and an exit code.
#pragma once

#include <string>

#include "base/error.h"
#include "tinyloop/error.h"

namespace tinyloop::cli {

inline constexpr int kExitFailure = 1;  // something went wrong while it ran
inline constexpr int kExitBadInput =
    2;  // the command line, a request or the model file is at fault

// Both print "tinyloop: <message>" as one line and return the exit code.
int report_failure(errc condition, const std::string& message);
int report_failure(const base::Error& error);

// Throws base::Failure(invalid_argument): "field: value, allowed: bound".
[[noreturn]] void refuse(const std::string& field, const std::string& value,
                         const std::string& bound);

}  // namespace tinyloop::cli
