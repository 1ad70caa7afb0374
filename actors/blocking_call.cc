#include "actors/blocking_call.h"

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <string>

#include "actors/error.h"
#include "actors/model_state.h"
#include "base/bounds.h"

namespace tinyloop::actors {

error_code blocking_error() noexcept {
  try {
    throw;
  } catch (const boost::system::system_error& error) {
    return error.code();
  } catch (...) {
    return make_error(current_refusal("call"));
  }
}

void refuse_pointer(const char* name, bool null) {
  base::refuse(name, null ? "null" : "empty", "neither null nor empty");
}

// The length is checked before the tokens are read: it may be anything.
std::vector<int32_t> BlockingCall::tokens(const char* name, const int32_t* tokens,
                                          const char* length_name, int length) const {
  if (!tokens) refuse_pointer(name, true);
  base::check_range(length_name, length, 1, model_.state()->replica().limits().max_seq_len);
  return {tokens, tokens + length};
}

PrefixRequest BlockingCall::prefix(const int32_t* values, int seq_len, int cache_window) const {
  PrefixRequest request;
  request.tokens = tokens("tokens", values, "seq_len", seq_len);
  request.cache_window = cache_window;
  request.when_full = WhenFull::wait_for_requests;
  return request;
}

std::vector<int32_t> BlockingCall::generate(GenerateRequest request, const GenerateConfig& config,
                                            int32_t loops) const {
  request.config = config;
  if (!config.loops) request.config.loops = loops;
  request.when_full = WhenFull::wait_for_requests;
  return wait_for<GenerateResult>(
             [&](auto token) { model_.async_generate(std::move(request), std::move(token)); })
      .tokens;
}

bool BlockingCall::is_breach(const error_code& error) const noexcept {
  if (is_contract_error(error)) return true;
  return out_of_memory_ == OutOfMemory::is_a_breach && error == errc::out_of_memory;
}

void BlockingCall::check_loops(const char* name, int loops, int32_t low, int32_t high) const {
  base::check_range(name, loops, low, std::min(high, model_.state()->replica().limits().max_loops));
}

void BlockingCall::check_model() const {
  if (null_) refuse_pointer("model", true);
  if (!model_) throw base::Failure(errc::model_closed, "the Model is empty");
}

void BlockingCall::log(const error_code& error) const noexcept {
  if (!model_) return;
  try {
    model_.state()->engine().log()(LogLevel::error,
                                   std::string(function_) + ": " + error.message());
  } catch (const std::bad_alloc&) {
    // The result says that it failed.
  }
}

void throw_code(const error_code& error) {
  throw boost::system::system_error(error);
}

// The one way to lose a handler is an executor without memory for it.
void throw_lost() {
  throw base::Failure(errc::out_of_memory, "no host memory for the answer");
}

}  // namespace tinyloop::actors
