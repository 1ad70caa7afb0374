#include "actors/replica_devices.h"

#include <algorithm>
#include <string>
#include <thread>

namespace tinyloop::actors {

namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

base::Result<std::vector<ModelOptions>> options_of_replicas(const ModelOptions& options) {
  const std::vector<std::string> devices = split(options.device);
  if (std::find(devices.begin(), devices.end(), "") != devices.end()) {
    return base::Error{errc::invalid_argument,
                       "device: \"" + options.device + "\", allowed: names separated by commas"};
  }
  const size_t count = options.replicas == 0 ? devices.size() : size_t(options.replicas);
  std::vector<ModelOptions> each(count, options);
  for (size_t i = 0; i < count; ++i) {
    each[i].device = devices[i % devices.size()];
    if (options.cpu_threads == 0 && count > 1) {
      each[i].cpu_threads = std::max(1, int32_t(std::thread::hardware_concurrency() / count));
    }
  }
  return each;
}

}  // namespace tinyloop::actors
