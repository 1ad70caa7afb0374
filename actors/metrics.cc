#include "tinyloop/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tinyloop {

uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

double Histogram::quantile(double part) const {
  const double wanted = std::clamp(part, 0.0, 1.0) * double(count());
  double below = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto here = double(counts[i]);
    if (here == 0 || below + here < wanted) {
      below += here;
      continue;
    }
    if (i == bounds.size()) return bounds.empty() ? 0 : bounds.back();
    const double from = i == 0 ? 0 : bounds[i - 1];
    return from + (bounds[i] - from) * (wanted - below) / here;
  }
  return 0;
}

}  // namespace tinyloop
