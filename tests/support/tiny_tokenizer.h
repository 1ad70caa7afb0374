// The tokenizer keys of a small byte-level BPE vocabulary, in the form of GGUF `gpt2` files.
#pragma once

#include <cstdint>

#include "tests/support/gguf_writer.h"

namespace tinyloop::testing {

// <|endoftext|> is token 0 (begin and end of a text), then the 256 bytes in order of value, then
// one token per merge. `vocab` is at least 257 and at most 900, else std::invalid_argument.
void write_tiny_tokenizer(int32_t vocab, GgufWriter& writer);

}  // namespace tinyloop::testing
