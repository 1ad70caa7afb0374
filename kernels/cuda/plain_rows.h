// Rows in the form that tensor cores read: FP16, dense, aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CudaContext;

// Whether `cols` numbers of each row can be read by 16 bytes. Rows may lie behind an index.
bool is_plain(const RowView& x, int32_t cols);

// `cols` numbers of each row in FP16, filled up with zeros to `padded` ones.
struct PlainCopy {
  RowView x;
  int32_t rows;
  int32_t cols;
  int32_t padded;

  size_t bytes() const { return size_t(rows) * size_t(padded) * 2; }
};
// At `to`, of bytes() bytes.
RowView plain_copy(CudaContext& cuda, const PlainCopy& copy, std::byte* to);

}  // namespace tinyloop::kernels
