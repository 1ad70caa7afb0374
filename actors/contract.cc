#include "actors/contract.h"

#include <atomic>
#include <boost/system/system_error.hpp>
#include <cstdio>
#include <cstdlib>

namespace tinyloop {

namespace {

// Constant-initialised: calls may come before main() and while the process ends.
constinit std::atomic<ContractPolicy> policy{ContractPolicy::abort};

}  // namespace

void set_contract_policy(ContractPolicy chosen) noexcept {
  policy.store(chosen);
}

ContractPolicy contract_policy() noexcept {
  return policy.load();
}

namespace actors {

bool is_contract_error(const error_code& error) noexcept {
  switch (errc_of(error)) {
    case errc::invalid_argument:
    case errc::wrong_model:
    case errc::loop_mismatch:
      return true;
    default:
      return false;
  }
}

void break_off(const char* function, const error_code& error) {
  if (contract_policy() == ContractPolicy::throw_exception) {
    throw boost::system::system_error(error, function);
  }
  std::fprintf(stderr, "tinyloop: %s: %s\n", function, error.message().c_str());
  std::abort();
}

}  // namespace actors

}  // namespace tinyloop
