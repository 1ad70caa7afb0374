// The tokenizer inside a model file.
#pragma once

#include <optional>

#include "base/error.h"
#include "engine/gguf_reader.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {

// nullopt: the file has no `tokenizer.ggml.model`, so it is used with token ids alone. The
// tokenizer keeps nothing of the file. Errors: those of Tokenizer::create; bad_model_file for a key
// that is missing or of another type; unsupported_model for keys that ask for more than it can do.
base::Result<std::optional<Tokenizer>> load_tokenizer(const GgufFile& file);

}  // namespace tinyloop::engine
