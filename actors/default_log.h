// The log sink of an engine whose owner gave none.
#pragma once

#include "base/log.h"

namespace tinyloop::actors {

// A private spdlog logger on stderr, from `level` up; spdlog's registry and its default logger stay
// untouched. Never throws.
base::LogSink default_log(base::LogLevel level = base::LogLevel::warning);

// `sink` with a guard: what is below `level`, and what it throws, is dropped.
base::LogSink guarded(base::LogSink sink, base::LogLevel level);

}  // namespace tinyloop::actors
