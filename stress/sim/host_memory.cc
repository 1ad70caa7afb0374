#include "stress/sim/host_memory.h"

#include <cstdlib>
#include <new>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The standard library's operator delete is left as it is: it calls free(). GCC 12 would take
// that for a mistake if it saw through this.
[[gnu::noinline]] void* operator new(size_t size) {
  using tinyloop::sim::HostMemory;
  if (HostMemory::refused && HostMemory::refuse_in > 0 && --HostMemory::refuse_in == 0) {
    ++*HostMemory::refused;
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

#endif
