// What befalls a service in a long life: replicas that fail, are drained and loaded again, other
// models that come and go, memory that is asked back.
#pragma once

#include <random>

#include "stress/soak/world.h"

namespace tinyloop::soak {

// On a thread of its own. Never more than one replica is out of service at a time, so requests that
// may go to any must not hear of it.
class Chaos {
 public:
  Chaos(World& world, Engine& engine, std::string path, ModelOptions options, uint64_t seed)
      : world_(world),
        engine_(engine),
        path_(std::move(path)),
        options_(std::move(options)),
        random_(seed) {}

  // Until world.stop. Between two acts, which end with every replica in service, it sleeps for up
  // to `interval`.
  void run(std::chrono::milliseconds interval);

 private:
  size_t below(size_t bound) { return size_t(random_() % bound); }
  void act();
  void kill(size_t replica);
  void drain(size_t replica);
  void reload(size_t replica);
  void load_another();
  void expect(const char* what, const error_code& error);

  World& world_;
  Engine& engine_;
  const std::string path_;
  const ModelOptions options_;
  std::mt19937_64 random_;
};

}  // namespace tinyloop::soak
