# Warnings are errors, for host and device code alike. `tinyloop_warnings` is linked by every
# target of this project and by nothing that is installed.
add_library(tinyloop_warnings INTERFACE)
set(host_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Woverloaded-virtual
    -Wnull-dereference -Wundef -Werror)
target_compile_options(tinyloop_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${host_warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow -Werror=all-warnings>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports null dereferences and overlapping copies (GCC bug 105651) inside the standard
  # library's own inlined code; the checks stay on for Clang.
  target_compile_options(tinyloop_warnings INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-null-dereference;-Wno-restrict>")
endif()
if(TINYLOOP_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The instrumentation hides from GCC 12 that a variant's members are set before they are read, and
  # how large a vector is that has just been resized.
  target_compile_options(tinyloop_warnings INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-stringop-overflow>")
endif()
if(TINYLOOP_SANITIZE MATCHES "thread")
  # Asio uses std::atomic_thread_fence, which ThreadSanitizer does not model; GCC says so as a warning.
  target_compile_options(tinyloop_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>")
endif()
