#include "output.h"

#include <iostream>
#include <string>

#include "base/error.h"

namespace tinyloop::cli {

void write(std::string_view text) {
  if (std::cout << text << std::flush) return;
  throw base::Failure(errc::internal, "stdout: cannot be written");
}

void write_line(const Json& json) {
  write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tinyloop::cli
