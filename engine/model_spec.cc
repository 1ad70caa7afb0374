#include "engine/model_spec.h"

#include "engine/gguf_text.h"
#include "engine/model_spec_metadata.h"
#include "engine/model_spec_tensors.h"

namespace tinyloop::engine {

const char* to_string(Injection injection) noexcept {
  switch (injection) {
    case Injection::none:
      return "none";
    case Injection::add:
      return "add";
    case Injection::linear:
      return "linear";
    case Injection::diagonal:
      return "diagonal";
  }
  return "unknown";
}

const char* to_string(InitialState state) noexcept {
  switch (state) {
    case InitialState::prelude:
      return "prelude";
    case InitialState::zeros:
      return "zeros";
    case InitialState::normal:
      return "normal";
  }
  return "unknown";
}

const char* to_string(ExitRule rule) noexcept {
  switch (rule) {
    case ExitRule::none:
      return "none";
    case ExitRule::gate:
      return "gate";
  }
  return "unknown";
}

const char* to_string(kernels::FfnType type) noexcept {
  switch (type) {
    case kernels::FfnType::swiglu:
      return "swiglu";
    case kernels::FfnType::relu2:
      return "relu2";
  }
  return "unknown";
}

base::Result<ModelSpec> read_model_spec(const GgufFile& file) {
  try {
    const std::string architecture(file.string("general.architecture").value());
    if (architecture != "tinyloop" && architecture != "llama") {
      return file.error(errc::unsupported_model, key_text("general.architecture") + ": " +
                                                     quoted(architecture) +
                                                     ", expected 'tinyloop' or 'llama'");
    }
    const SpecKeys keys(file, architecture);
    refuse_unsupported_keys(keys);
    ModelSpec spec = read_metadata(keys);
    spec.tensors = resolve_tensors(file, spec);
    spec.tied = !spec.tensors.output;
    return spec;
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

}  // namespace tinyloop::engine
