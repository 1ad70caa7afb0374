// What the blocking interface does with an error: its contract and the policy for breaches.
#pragma once

#include "tinyloop/blocking.h"
#include "tinyloop/error.h"

namespace tinyloop::actors {

// The caller's mistake, which it could have avoided, as against what happens at run time.
bool is_contract_error(const error_code& error) noexcept;

// Aborts with a line on stderr, or throws, as the process has chosen. `function`: the one called.
[[noreturn]] void break_off(const char* function, const error_code& error);

}  // namespace tinyloop::actors
