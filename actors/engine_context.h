// What an engine's owner configured for all of its threads. Immutable, shared by them.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "kernels/backend.h"

namespace tinyloop::actors {

// kernels::make_backend; tests give replicas other backends.
using MakeBackend =
    std::function<base::Result<std::unique_ptr<kernels::Backend>>(const ModelOptions&)>;

struct EngineContext {
  base::LogSink log;  // never empty, never throws
  std::function<void()> on_thread_start;
  std::function<void()> on_thread_stop;
  MakeBackend make_backend = kernels::make_backend;
};

using ContextRef = std::shared_ptr<const EngineContext>;

}  // namespace tinyloop::actors
