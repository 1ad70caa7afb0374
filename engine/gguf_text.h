// How the parts of a model file are written in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tinyloop::engine {

// Bytes outside printable ASCII as \xNN, everything past 96 bytes cut: text in a file may be
// anything. `quoted` adds single quotes.
std::string printable(std::string_view text);
std::string quoted(std::string_view text);

// "[512, 1408]", in the file's order: inputs first.
std::string shape_text(std::span<const uint64_t> dims);

// Whole numbers as such, others to the precision of a float: "10000", "1e-05", "nan".
std::string number_text(double value);

// "key 'tinyloop.block_count'", "tensor 'output.weight'".
std::string key_text(std::string_view key);
std::string tensor_text(std::string_view name);

}  // namespace tinyloop::engine
