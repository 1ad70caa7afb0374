// A log sink: one per engine, passed down by reference. No process-wide logger, no output of our
// own unless the engine's owner chose it.
#pragma once

#include "tinyloop/log.h"

namespace tinyloop::base {

using tinyloop::LogLevel;
using tinyloop::LogSink;

}  // namespace tinyloop::base
