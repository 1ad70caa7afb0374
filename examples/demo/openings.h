// First sentences of tales.
#pragma once

#include <cstddef>
#include <string>

namespace demo {

// There are 32; a larger number starts over.
std::string opening(size_t number);

}  // namespace demo
