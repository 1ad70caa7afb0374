// What an engine's owner configured for all of its threads. Immutable, shared by them.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"

namespace tinyloop::actors {

struct EngineContext {
  base::LogSink log;  // never empty, never throws
  std::function<void()> on_thread_start;
  std::function<void()> on_thread_stop;
};

using ContextRef = std::shared_ptr<const EngineContext>;

}  // namespace tinyloop::actors
