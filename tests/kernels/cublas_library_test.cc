// What is said where there is no cuBLAS, or one that is none. No device is needed.
#ifdef TINYLOOP_WITH_CUDA

#include "kernels/cuda/cublas_library.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tinyloop::kernels {
namespace {

base::Error error_of(std::span<const char* const> names) {
  try {
    const CublasLibrary library(names);
  } catch (const base::Failure& failure) {
    return failure.error();
  }
  return {errc::ok, {}};
}

void expect_in_order(const std::string& text, std::initializer_list<const char*> parts) {
  size_t at = 0;
  for (const char* part : parts) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << "no '" << part << "' in: " << text;
  }
}

TEST(CublasLibrary, EveryNameThatWasTriedIsNamed) {
  constexpr const char* kNames[] = {"libnot-there.so.13", "libnot-there.so"};
  const base::Error error = error_of(kNames);
  EXPECT_EQ(error.code, errc::invalid_argument);
  expect_in_order(error.detail, {"mode = fast: cuBLAS could not be loaded; libnot-there.so.13: ",
                                 "cannot open", "; libnot-there.so: ", "cannot open"});
}

TEST(CublasLibrary, AnotherLibraryIsRefusedByTheFunctionThatIsMissing) {
  constexpr const char* kNames[] = {"libnot-there.so", "libm.so.6"};
  const base::Error error = error_of(kNames);
  EXPECT_EQ(error.code, errc::invalid_argument);
  expect_in_order(error.detail,
                  {"mode = fast: libm.so.6 is no cuBLAS to work with: ", "cublasCreate_v2"});
}

TEST(CublasLibrary, NoNames) {
  EXPECT_EQ(error_of({}).code, errc::invalid_argument);
}

// Where there is one: what is found has everything, and says what went wrong.
TEST(CublasLibrary, StatusesBecomeErrors) {
  if (const base::Error missing = error_of(kCublasNames); missing.code != errc::ok) {
    GTEST_SKIP() << missing.detail;
  }
  const CublasLibrary library;
  library.check(CUBLAS_STATUS_SUCCESS, "cublasGemmEx");
  const auto failure = [&](cublasStatus_t status) {
    try {
      library.check(status, "cublasGemmEx");
    } catch (const base::Failure& thrown) {
      return thrown.error();
    }
    return base::Error{errc::ok, {}};
  };
  EXPECT_EQ(failure(CUBLAS_STATUS_EXECUTION_FAILED).code, errc::replica_failed);
  EXPECT_EQ(failure(CUBLAS_STATUS_EXECUTION_FAILED).detail,
            "cublasGemmEx: CUBLAS_STATUS_EXECUTION_FAILED");
  EXPECT_EQ(failure(CUBLAS_STATUS_ALLOC_FAILED).code, errc::out_of_memory);
}

}  // namespace
}  // namespace tinyloop::kernels

#endif
