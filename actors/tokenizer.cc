#include "tinyloop/tokenizer.h"

#include <boost/system/system_error.hpp>

#include "actors/error.h"
#include "engine/tokenizer.h"

namespace tinyloop {

const engine::Tokenizer& Tokenizer::get() const {
  if (impl_) return *impl_;
  throw boost::system::system_error(
      actors::make_error(errc::unsupported_model, "the model file has no tokenizer"));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return get().encode(text, {.add_bos = options.add_bos, .parse_special = options.parse_special});
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, bool show_special) const {
  return get().decode(tokens, {.show_special = show_special});
}

int32_t Tokenizer::vocab_size() const {
  return get().vocab_size();
}

std::optional<int32_t> Tokenizer::bos() const {
  return get().bos();
}

std::optional<int32_t> Tokenizer::eos() const {
  return get().eos();
}

}  // namespace tinyloop
