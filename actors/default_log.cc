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

base::LogSink default_log() {
  auto logger = std::make_shared<spdlog::logger>("tinyloop",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::warn);
  return guarded([logger](base::LogLevel level, std::string_view message) {
    logger->log(level_of(level), spdlog::string_view_t(message.data(), message.size()));
  });
}

base::LogSink guarded(base::LogSink sink) {
  return [sink = std::move(sink)](base::LogLevel level, std::string_view message) noexcept {
    try {
      sink(level, message);
    } catch (...) {
      // The sink's contract forbids it; a lost message is the least harm.
    }
  };
}

}  // namespace tinyloop::actors
