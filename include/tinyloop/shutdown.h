// How a model or an engine ends.
#pragma once

#include <cstdint>

namespace tinyloop {

// Either way new requests are refused with errc::shutdown, and every accepted one completes.
enum class ShutdownMode : uint8_t {
  drain,   // accepted requests run to their own end
  cancel,  // queued requests complete with errc::shutdown, begun ones with FinishReason::cancelled
};

}  // namespace tinyloop
