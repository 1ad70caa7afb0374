#include "actors/build_operation.h"

namespace tinyloop::actors {

template <class Kind>
void BuildOperation<Kind>::open() {
  const error_code error = this->whole_or_error();
  Kind result;
  if (!error) result = Kind(std::move(handle_));
  handle_.reset();
  made_.reset();
  this->answer(error, std::move(result));
}

template class BuildOperation<PrefixCache>;
template class BuildOperation<ResumeHandle>;

}  // namespace tinyloop::actors
