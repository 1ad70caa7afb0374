#include "id_list.h"

#include <charconv>
#include <limits>
#include <string_view>

#include "failure.h"

namespace tinyloop::cli {

namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

std::vector<int32_t> parse_ids(const std::string& field, const std::string& text, int32_t low,
                               int32_t high) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trimmed(std::string_view(text).substr(begin, comma - begin));
    int32_t id = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), id);
    if (error != std::errc() || end != entry.data() + entry.size() || id < low || id > high) {
      refuse(field + "[" + std::to_string(ids.size()) + "]", "'" + std::string(entry) + "'",
             std::to_string(low) + " to " + std::to_string(high));
    }
    ids.push_back(id);
    begin = comma + 1;
  }
  return ids;
}

std::vector<int32_t> parse_ids(const std::string& field, const std::string& text) {
  return parse_ids(field, text, std::numeric_limits<int32_t>::min(),
                   std::numeric_limits<int32_t>::max());
}

std::string join_ids(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace tinyloop::cli
