#include "base/error.h"

namespace tinyloop::base {

void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw Failure(error);
}

}  // namespace tinyloop::base
