#include "tinyloop/detail/completion.h"

#include <boost/asio/post.hpp>

#include "tinyloop/model.h"

namespace tinyloop::detail {

template <class... Results>
void Completion<Results...>::post(error_code error, Results... results) noexcept {
  try {
    auto executor = executor_;
    boost::asio::post(executor,
                      [self = std::move(*this), error, ... values = std::move(results)]() mutable {
                        self.invoke(error, std::move(values)...);
                      });
  } catch (...) {
    // No memory for the executor's queue entry: there is no way left to run the handler.
  }
}

template class Completion<>;
template class Completion<size_t>;
template class Completion<GenerateResult>;
template class Completion<ScoreResult>;
template class Completion<StreamChunk>;
template class Completion<Model>;
template class Completion<PrefixCache>;
template class Completion<ResumeHandle>;
template class Completion<int32_t>;
template class Completion<PoolEntryInfo>;
template class Completion<Trace>;

}  // namespace tinyloop::detail
