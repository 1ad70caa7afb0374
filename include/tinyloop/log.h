// Where an engine's messages go.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tinyloop {

enum class LogLevel : uint8_t { debug, info, warning, error };

// One sink per engine; there is no process-wide one. Called for messages of
// EngineOptions::log_level and above, from any of the engine's threads and, where a request is
// refused at once, on the thread that sends it (level debug); also at the same time. Must not
// throw, wait for the engine, or destroy it.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

}  // namespace tinyloop
