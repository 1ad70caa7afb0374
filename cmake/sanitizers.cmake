# TINYLOOP_SANITIZE: a value for -fsanitize=, empty for none. Applied to everything in the build,
# because a half-instrumented program reports races that are not there.
set(TINYLOOP_SANITIZE "" CACHE STRING "Value for -fsanitize= (for example address,undefined)")
if(TINYLOOP_SANITIZE)
  add_compile_options(
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TINYLOOP_SANITIZE};-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${TINYLOOP_SANITIZE})
  if(TINYLOOP_SANITIZE MATCHES "undefined")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>")
  endif()
endif()
