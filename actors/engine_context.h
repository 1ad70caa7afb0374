// What an engine's owner configured for all of its threads, and what they stand on. Immutable,
// shared by them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/clock.h"
#include "actors/loop.h"
#include "base/log.h"
#include "kernels/backend.h"

namespace tinyloop::actors {

// kernels::make_backend; tests give replicas other backends.
using MakeBackend =
    std::function<base::Result<std::unique_ptr<kernels::Backend>>(const ModelOptions&)>;

// Takes over a loop in place of a thread of that name, to turn it to its end.
using TakeLoop = std::function<void(const std::string& name, std::shared_ptr<Loop> loop)>;

// The world below an engine: the real one, unless a test or a simulation says otherwise.
struct Platform {
  MakeBackend make_backend = kernels::make_backend;
  const Clock* clock = &Clock::steady();  // must outlive whatever the engine has made
  TakeLoop take_loop{};                   // empty: loops run on threads
};

struct EngineContext {
  base::LogSink log;  // never empty, never throws; drops what is below log_level
  base::LogLevel log_level = base::LogLevel::warning;
  std::function<void()> on_thread_start;
  std::function<void()> on_thread_stop;
  Platform platform;

  // Logs make_message(), which is called only where the level is wanted. A message for which there
  // is no memory is lost.
  template <class MakeMessage>
  void say(base::LogLevel level, MakeMessage&& make_message) const noexcept {
    if (level < log_level) return;
    try {
      log(level, make_message());
    } catch (...) {
    }
  }
};

using ContextRef = std::shared_ptr<const EngineContext>;

}  // namespace tinyloop::actors
