// Text to token ids and back, as the model file describes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinyloop/detail/export.h"

namespace tinyloop::engine {
class Tokenizer;
}

namespace tinyloop {

struct EncodeOptions {
  // Begin with the file's bos token, if it has one. Unset: as the file says, or else as its family
  // does.
  std::optional<bool> add_bos;
  bool parse_special = false;  // control tokens written out in the text become those tokens
};

// A cheap copy of a shared, immutable tokenizer: usable by any number of threads at the same time,
// also after the model and the engine are gone. Empty if the model file has none; everything but
// the conversion to bool then throws boost::system::system_error with errc::unsupported_model.
class TINYLOOP_API Tokenizer {
 public:
  Tokenizer() = default;
  explicit Tokenizer(std::shared_ptr<const engine::Tokenizer> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  // Any bytes.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The exact bytes of the tokens, which need not be whole characters; control tokens stand for
  // nothing unless `show_special`. Ids outside the vocabulary stand for nothing. Where the
  // tokenizer puts a space before a text, that space is dropped.
  std::string decode(std::span<const int32_t> tokens, bool show_special = false) const;

  int32_t vocab_size() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;

 private:
  const engine::Tokenizer& get() const;

  std::shared_ptr<const engine::Tokenizer> impl_;
};

}  // namespace tinyloop
