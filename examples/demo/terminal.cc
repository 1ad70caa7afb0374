#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace demo {

bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

TerminalSize terminal_size() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

std::string tail(const std::string& text, size_t columns) {
  size_t begin = text.size();
  for (size_t taken = 0; begin > 0 && taken < columns; ++taken) {
    do {
      --begin;
    } while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  }
  std::string end = text.substr(begin);
  for (char& c : end) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return end;
}

}  // namespace demo
