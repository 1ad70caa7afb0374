#include "actors/build_operation.h"

#include "actors/error.h"

namespace tinyloop::actors {

namespace {

// A prefix that is not whole is none: what would be a short result of a generation is an error.
error_code error_of(const Outcome& outcome) {
  if (outcome.error) return outcome.error;
  switch (outcome.reason) {
    case FinishReason::cancelled:
      return make_error(errc::operation_aborted, {});
    case FinishReason::deadline:
      return make_error(errc::deadline_exceeded, "the prefix was not complete at its deadline");
    default:
      return {};
  }
}

}  // namespace

template <class Kind>
void BuildOperation<Kind>::open() {
  const error_code error = error_of(outcome);
  Kind result;
  if (!error) result = Kind(std::move(handle_));
  handle_.reset();
  made_.reset();
  set_handled();
  auto completion = std::move(completion_);
  completion.invoke(error, std::move(result));
}

template class BuildOperation<PrefixCache>;
template class BuildOperation<ResumeHandle>;

}  // namespace tinyloop::actors
