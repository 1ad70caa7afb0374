#include "actors/default_log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <utility>

namespace tinyloop::actors {

namespace {

spdlog::level::level_enum level_of(base::LogLevel level) {
  switch (level) {
    case base::LogLevel::debug:
      return spdlog::level::debug;
    case base::LogLevel::info:
      return spdlog::level::info;
    case base::LogLevel::warning:
      return spdlog::level::warn;
    case base::LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

base::LogSink default_log(base::LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("tinyloop",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(level_of(level));
  const auto log = [logger](base::LogLevel of, std::string_view message) {
    logger->log(level_of(of), spdlog::string_view_t(message.data(), message.size()));
  };
  return guarded(log, level);
}

base::LogSink guarded(base::LogSink sink, base::LogLevel level) {
  return [sink = std::move(sink), level](base::LogLevel of, std::string_view message) noexcept {
    if (of < level) return;
    try {
      sink(of, message);
    } catch (...) {
      // The sink's contract forbids it; a lost message is the least harm.
    }
  };
}

}  // namespace tinyloop::actors
