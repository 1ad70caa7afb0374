// Unicode Normalization Form C.
// Source: Unicode Standard Annex #15, by ICU; Unicode 15.0 for ICU 72.
#pragma once

#include <string>
#include <string_view>

namespace tinyloop::engine {

// `text` in NFC. Bytes that are not UTF-8 stay as they are, and what lies between them is
// normalised on its own. Time in proportion to the length, but for sorting (n log n) long runs of
// combining marks. Throws std::bad_alloc, also for a single run of marks of 2^31 bytes or more.
std::string normalise_nfc(std::string_view text);

}  // namespace tinyloop::engine
