// The little that the demo has to know about terminals.
#pragma once

#include <cstddef>
#include <string>

namespace demo {

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
};

bool stdout_is_terminal();
TerminalSize terminal_size();  // the default where the terminal does not say

// The end of `text` in at most `columns` columns, control characters as spaces, one column a code
// point. `text` is valid UTF-8 and is cut between code points.
std::string tail(const std::string& text, size_t columns);

}  // namespace demo
