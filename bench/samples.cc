#include "bench/samples.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace tinyloop::bench {

namespace {

template <class Operation>
Samples combine(const Samples& a, const Samples& b, Operation&& operation) {
  Samples result;
  std::transform(a.begin(), a.end(), b.begin(), std::back_inserter(result), operation);
  return result;
}

std::string number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

double median(Samples samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

Samples ratios(const Samples& a, const Samples& b) {
  return combine(a, b, [](double x, double y) { return x / y; });
}

Samples differences(const Samples& a, const Samples& b) {
  return combine(a, b, [](double x, double y) { return x - y; });
}

Samples savings(const Samples& a, const Samples& b) {
  return combine(a, b, [](double x, double y) { return 1 - x / y; });
}

Samples scaled(Samples samples, double factor) {
  for (double& sample : samples) sample *= factor;
  return samples;
}

std::string spread(const Samples& samples, int digits) {
  if (samples.empty()) return "none";
  const auto [least, greatest] = std::minmax_element(samples.begin(), samples.end());
  return number(median(samples), digits) + " (" + number(*least, digits) + " to " +
         number(*greatest, digits) + ")";
}

std::vector<Samples> take_turns(int32_t rounds, const std::vector<std::function<double()>>& run) {
  std::vector<Samples> samples(run.size());
  for (const auto& variant : run) variant();
  for (int32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < run.size(); ++i) {
      const size_t which = round % 2 == 0 ? i : run.size() - 1 - i;
      samples[which].push_back(run[which]());
    }
  }
  return samples;
}

}  // namespace tinyloop::bench
