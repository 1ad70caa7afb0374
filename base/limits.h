// The bounds of the public options and requests, in one place. docs/options.md lists them; the
// comments of tinyloop/options.h and tinyloop/generate.h state them to callers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyloop::base {

inline constexpr int32_t kMaxSeqLen = 1
                                      << 20;  // positions · d_model fits size_t with room to spare
inline constexpr int32_t kMaxSequences = 1024;  // in progress at once: each costs host memory
inline constexpr int32_t kMaxReplicas = 64;     // a bit each where it is noted who has what
inline constexpr int32_t kMaxQueued = 32768;    // a fixed-size lock-free queue numbers 16-bit nodes
inline constexpr int32_t kMaxHoldPasses = 63;   // nobody waits longer than the deepest loop runs
inline constexpr int32_t kMaxCpuThreads = 256;
inline constexpr int32_t kMaxHandles = 65536;
inline constexpr int32_t kMaxResumeLoops = 64;    // the deepest that a ResumeHandle provides for
inline constexpr int32_t kMaxStopSequences = 64;  // a request's own; bounds the work a token costs
inline constexpr size_t kMaxStopLength = 1024;    // tokens or bytes
inline constexpr int32_t kMaxTraceEvents = 1 << 24;  // of 72 bytes: more than a gigabyte
inline constexpr int32_t kMaxLogprobs = 64;          // candidates a position
inline constexpr int32_t kMaxLogitBias = 1024;       // tokens: they travel with each step
inline constexpr float kMaxPenalty = 2.0f;           // presence and frequency, as elsewhere
inline constexpr int32_t kMaxPriority = 16;  // and least; bounds how long anybody is held up

static_assert(kMaxQueued <= 65535 - 1024,
              "boost::lockfree's fixed-size queue holds at most 65,535");

}  // namespace tinyloop::base
