// A log sink: one per engine, passed down by reference. No process-wide logger, no output of our
// own unless the engine's owner chose it.
#pragma once

#include <functional>
#include <string_view>

namespace tinyloop::base {

enum class LogLevel : unsigned char { debug, info, warning, error };

// Called from any of the engine's threads, also at the same time. Must not throw.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

}  // namespace tinyloop::base
