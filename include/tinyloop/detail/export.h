// Marks what a shared build of the library exports.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define TINYLOOP_API __attribute__((visibility("default")))
#else
#define TINYLOOP_API
#endif
