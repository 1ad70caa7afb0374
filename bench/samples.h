// Times of variants that were measured in turns, and ratios between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tinyloop::bench {

// In microseconds, or without a unit; one a round.
using Samples = std::vector<double>;

double median(Samples samples);

// Round by round, a[i] / b[i] and a[i] - b[i]: what slows a whole round falls out.
Samples ratios(const Samples& a, const Samples& b);
Samples differences(const Samples& a, const Samples& b);
// 1 - a[i] / b[i]: the part of b that a saves.
Samples savings(const Samples& a, const Samples& b);
Samples scaled(Samples samples, double factor);

// "1.02 (0.99 to 1.10)": median, least and greatest.
std::string spread(const Samples& samples, int digits);

// Runs every variant once to warm up, then `rounds` times in turns, forwards and backwards by
// turns. What a variant returns is its sample. Result: one Samples a variant, of `rounds` entries.
std::vector<Samples> take_turns(int32_t rounds, const std::vector<std::function<double()>>& run);

}  // namespace tinyloop::bench
