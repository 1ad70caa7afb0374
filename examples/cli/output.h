// What the command line writes to stdout.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace tinyloop::cli {

using Json = nlohmann::ordered_json;

// Writes and flushes, so that a stream is seen as it comes. Throws base::Failure(internal) when
// stdout cannot be written.
void write(std::string_view text);

// One line; bytes that are not UTF-8 become U+FFFD, numbers that are not finite become null.
void write_line(const Json& json);

}  // namespace tinyloop::cli
