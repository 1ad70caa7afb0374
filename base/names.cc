// Printable names of the public enumerations.
#include "tinyloop/generate.h"
#include "tinyloop/options.h"
#include "tinyloop/reports.h"

namespace tinyloop {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::eos:
      return "eos";
    case FinishReason::stop_sequence:
      return "stop_sequence";
    case FinishReason::max_tokens:
      return "max_tokens";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::deadline:
      return "deadline";
    case FinishReason::all_masked:
      return "all_masked";
  }
  return "unknown";
}

const char* to_string(ArithmeticMode mode) noexcept {
  switch (mode) {
    case ArithmeticMode::automatic:
      return "auto";
    case ArithmeticMode::int8:
      return "int8";
    case ArithmeticMode::f32:
      return "f32";
    case ArithmeticMode::f16:
      return "f16";
    case ArithmeticMode::fast:
      return "fast";
  }
  return "unknown";
}

const char* to_string(Schedule schedule) noexcept {
  switch (schedule) {
    case Schedule::throughput:
      return "throughput";
    case Schedule::latency:
      return "latency";
    case Schedule::fixed:
      return "fixed";
  }
  return "unknown";
}

const char* to_string(ReplicaState state) noexcept {
  switch (state) {
    case ReplicaState::loading:
      return "loading";
    case ReplicaState::serving:
      return "serving";
    case ReplicaState::draining:
      return "draining";
    case ReplicaState::drained:
      return "drained";
    case ReplicaState::failed:
      return "failed";
    case ReplicaState::closed:
      return "closed";
  }
  return "unknown";
}

}  // namespace tinyloop
