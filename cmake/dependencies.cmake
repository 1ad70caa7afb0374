# Every library the project builds with, all of them Debian 12 packages (scripts/install-deps.sh).
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)               # Asio, Lockfree, System: headers only
find_package(spdlog REQUIRED)                   # default log sink; brings fmt
find_package(hwy REQUIRED)                      # CPU SIMD with run-time dispatch
find_package(ICU REQUIRED COMPONENTS uc)        # Unicode classes and NFC for the tokenizer
find_package(nlohmann_json 3.11 REQUIRED)       # plan dumps, reports, command line
if(TINYLOOP_BUILD_EXAMPLES OR TINYLOOP_BUILD_TESTS)
  find_package(CLI11 REQUIRED)
endif()
if(TINYLOOP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TINYLOOP_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
