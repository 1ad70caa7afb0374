// What a choice among many tokens takes of every number of its row, in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tinyloop::kernels {

// The greatest value; −inf for an empty row. NaN where the row has a NaN or +inf.
float greatest_usable(std::span<const float> row);

// out[i] = (row[i] − greatest) / temperature.
void scale_row(std::span<const float> row, float greatest, float temperature, float* out);

// out[i] = exp_of_negative of that, to the bit (kernels/sampling_math.h). No value is greater than
// `greatest`.
void exp_of_row(std::span<const float> row, float greatest, float temperature, float* out);

// noise_words of `blocks` blocks from `first` on, one behind the other: [blocks][4].
void noise_of_blocks(uint64_t seed, uint64_t position, uint32_t first, size_t blocks,
                     uint32_t* words);

}  // namespace tinyloop::kernels
