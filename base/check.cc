#include "base/check.h"

#include <string>
#include <string_view>

namespace tinyloop::base {

void check_failed(const char* file, int line, const char* condition) {
  std::string_view path = file;
  if (auto slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  throw Failure(errc::internal, "check failed at " + std::string(path) + ":" +
                                    std::to_string(line) + ": " + condition);
}

}  // namespace tinyloop::base
