// Invariants that stay on in release builds. A broken one is a bug of ours: it throws a Failure
// with errc::internal, which the replica's actor catches; that replica is marked failed, the
// process goes on.
#pragma once

#include "base/error.h"

namespace tinyloop::base {

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace tinyloop::base

#define TINYLOOP_CHECK(condition)                                     \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::tinyloop::base::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)
