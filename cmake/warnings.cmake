# Warnings are errors, for host and device code alike, but not inside a parent project: its compiler
# may know more of them. `tinyloop_warnings` is linked by every target of this project and by nothing
# that is installed.
add_library(tinyloop_warnings INTERFACE)
set(host_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Woverloaded-virtual
    -Wnull-dereference -Wundef)
set(device_warnings "SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow")
if(TINYLOOP_WERROR)
  list(APPEND host_warnings -Werror)
  string(APPEND device_warnings " -Werror=all-warnings")
endif()
target_compile_options(tinyloop_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${host_warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${device_warnings}>")
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
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own std::stable_sort uses a function that it declares deprecated.
  target_compile_options(tinyloop_warnings INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>")
endif()
