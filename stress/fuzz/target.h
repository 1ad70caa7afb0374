// The entry points that libFuzzer calls; replay.cc calls the first one for files.
#pragma once

#include <cstddef>
#include <cstdint>

// One run on one input: returns 0, or ends the process by an exception or a sanitizer's report.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Changes `data` in place, to at most `max_size` bytes, and returns the new size. Optional.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed);
