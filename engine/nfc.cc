#include "engine/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/utf8.h"

namespace tinyloop::engine {

namespace {

const icu::Normalizer2& composer() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  TINYLOOP_CHECK(U_SUCCESS(error));
  return *nfc;
}

bool is_mark(char32_t c) {
  return c >= 0x300 &&
         u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0;
}

// Combining marks in canonical order. ICU's own ordering is an insertion sort, whose time would be
// quadratic in the length of a run of marks.
class MarkRun {
 public:
  void add(char32_t mark) {
    icu::UnicodeString parts;
    if (!composer().getDecomposition(static_cast<UChar32>(mark), parts)) {
      parts.append(static_cast<UChar32>(mark));
    }
    for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
      const UChar32 part = parts.char32At(i);
      marks_.push_back({u_getCombiningClass(part), static_cast<char32_t>(part)});
    }
  }

  void flush(std::string& out) {
    std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    for (const Mark& mark : marks_) append_utf8(mark.code_point, out);
    marks_.clear();
  }

 private:
  struct Mark {
    uint8_t combining_class;
    char32_t code_point;
  };
  std::vector<Mark> marks_;
};

// NFC of `text`, which is valid UTF-8, is appended to `out`.
void append_nfc(std::string_view text, std::string& out) {
  if (!std::in_range<int32_t>(text.size())) throw std::bad_alloc();
  UErrorCode error = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  composer().normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                           sink, nullptr, error);
  if (U_FAILURE(error)) throw std::bad_alloc();  // the only way it fails with valid text
}

class NfcWriter {
 public:
  void valid(const Utf8Char& c, std::string_view bytes) {
    if (is_mark(c.code_point)) return marks_.add(c.code_point);
    marks_.flush(ordered_);
    const bool long_enough = ordered_.size() >= kPartBytes;
    if (long_enough && composer().hasBoundaryBefore(static_cast<UChar32>(c.code_point))) flush();
    ordered_ += bytes;
  }
  void invalid(std::string_view bytes) {
    flush();
    out_ += bytes;
  }
  std::string finish() {
    flush();
    return std::move(out_);
  }

 private:
  static constexpr size_t kPartBytes = size_t{1} << 16;  // ICU counts in int32_t

  void flush() {
    marks_.flush(ordered_);
    append_nfc(ordered_, out_);
    ordered_.clear();
  }

  MarkRun marks_;
  std::string ordered_, out_;
};

}  // namespace

std::string normalise_nfc(std::string_view text) {
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  NfcWriter writer;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    const std::string_view bytes = text.substr(0, c.length);
    if (c.status == Utf8Status::valid) {
      writer.valid(c, bytes);
    } else {
      writer.invalid(bytes);
    }
    text.remove_prefix(c.length);
  }
  return writer.finish();
}

}  // namespace tinyloop::engine
