# TINYLOOP_SANITIZE: a value for -fsanitize=, empty for none. Applied to everything in the build,
# because a half-instrumented program reports races that are not there.
set(TINYLOOP_SANITIZE "" CACHE STRING "Value for -fsanitize= (for example address,undefined)")
if(TINYLOOP_SANITIZE)
  add_compile_options(
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TINYLOOP_SANITIZE};-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${TINYLOOP_SANITIZE})
  # GCC's points-to analysis takes most of the time there, and nobody measures these programs.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-tree-pta>")
  if(TINYLOOP_SANITIZE MATCHES "undefined")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>")
    # A null pointer faults by itself, and AddressSanitizer knows the size of every object: these two
    # checks, at every access, double the time to compile the SIMD code.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size>")
  endif()
endif()
