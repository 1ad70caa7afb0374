#include "failure.h"

#include <iostream>

namespace tinyloop::cli {

namespace {

int exit_code(errc condition) {
  switch (condition) {
    case errc::invalid_argument:
    case errc::io_error:
    case errc::bad_model_file:
    case errc::unsupported_model:
      return kExitBadInput;
    default:
      return kExitFailure;
  }
}

}  // namespace

int report_failure(errc condition, const std::string& message) {
  std::string line = message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  std::cerr << "tinyloop: " << line << std::endl;
  return exit_code(condition);
}

int report_failure(const base::Error& error) {
  return report_failure(error.code,
                        make_error_condition(error.code).message() + ": " + error.detail);
}

void refuse(const std::string& field, const std::string& value, const std::string& bound) {
  throw base::Failure(errc::invalid_argument, field + ": " + value + ", allowed: " + bound);
}

}  // namespace tinyloop::cli
