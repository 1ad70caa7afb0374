// A thread's worth of callers: sends operations of every kind, some at a time, and checks how each
// ends.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "stress/soak/world.h"

namespace tinyloop::soak {

class Client {
 public:
  Client(World& world, uint64_t seed) : world_(world), random_(seed) {}

  // Until world.stop; takes part in pauses.
  void run();

 private:
  // An operation under way: waits for its end, and checks it.
  using Pending = std::function<void()>;

  // A handle, and the beginning that it holds.
  template <class Kind>
  struct Kept {
    Kind handle;
    size_t beginning = 0;
    int32_t loops = 1;
  };

  // How a request may be cut short, and what it says about its patience.
  struct Terms {
    bool cancels = false;
    int32_t delay = 0;  // of the cancel: turns of a spin
    std::optional<TimePoint> deadline{};
    WhenFull when_full = WhenFull::fail;
    int32_t priority = 0;
    bool has_base = false;  // begins with a handle, which may be lost
    bool has_pool = false;
    bool builds = false;
  };

  template <class Result>
  struct Flight;

  int32_t below(int32_t bound) { return int32_t(random_() % uint64_t(bound)); }
  bool one_in(int32_t bound) { return below(bound) == 0; }
  Passage draw_passage();
  Terms draw_terms();
  template <class Request>
  void set_terms(Request& request, const Terms& terms);

  void act();
  void generate();
  void generate_from_prefix();
  void generate_from_resume();
  void generate_from_pool();
  void stream();
  void score();
  void build_prefix();
  void build_resume();
  void deepen();
  void register_prefix();
  void release_one();
  void ask();

  void send(const Passage& passage, GenerateRequest request, const Terms& terms);
  template <class Result, class Start, class Check>
  void launch(const char* kind, const Terms& terms, Start&& start, Check check);
  void cut(const Terms& terms, const std::function<void()>& cancel);
  void expect(const char* kind, const error_code& error, const Terms& terms);
  void check(const Passage& passage, const GenerateResult& result, const GenerateRequest& request,
             const Terms& terms);
  void settle(size_t most);
  void give_up_everything();

  World& world_;
  std::mt19937_64 random_;
  std::deque<Pending> pending_;
  std::vector<Kept<PrefixCache>> prefixes_;
  std::vector<Kept<ResumeHandle>> resumes_;
};

}  // namespace tinyloop::soak
