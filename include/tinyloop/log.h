// Where an engine's messages go.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tinyloop {

enum class LogLevel : uint8_t { debug, info, warning, error };

// One sink per engine; there is no process-wide one. Called from any of the engine's threads, also
// at the same time. Must not throw, and must not destroy the engine.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

}  // namespace tinyloop
