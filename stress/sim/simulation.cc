#include "stress/sim/simulation.h"

#include "stress/sim/clients.h"
#include "stress/sim/scheduler.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

Scheduler::Habits draw_habits(Random& random) {
  Scheduler::Habits habits;
  habits.turns = size_t(random.between(1, 8));
  habits.handlers = size_t(random.between(1, 8));
  habits.clients = size_t(random.between(1, 8));
  habits.time = size_t(random.between(0, 2));
  habits.depth = random.between(0, 3);
  habits.interval = random.of({size_t{3}, size_t{20}, size_t{100}, size_t{500}});
  habits.many_threads = random.one_in(3);
  return habits;
}

class Simulation {
 public:
  Simulation(uint64_t seed, Tally& tally) : scheduler_(seed), tally_(tally) {
    scheduler_.habits = draw_habits(scheduler_.random());
    clients_.emplace(scheduler_, tally);
    scheduler_.client = [this] { return clients_->act(); };
    scheduler_.at_rest = [this] { clients_->check_at_rest(); };
  }

  void run(size_t steps) {
    clients_->load();
    if (scheduler_.random().one_in(4)) clients_->load();
    while (scheduler_.steps() < steps) scheduler_.step();
    clients_->stop_sending();
    switch (scheduler_.random().below(4)) {
      case 0:
      case 1:
        end_patiently();
        break;
      case 2:
        clients_->unload_all();
        break;
      default:
        clients_->shutdown(ShutdownMode::drain);
        break;
    }
    end();
    ++tally_.seeds;
    tally_.steps += scheduler_.steps();
    tally_.turns += scheduler_.turns();
    tally_.nested += scheduler_.nested();
  }

 private:
  void settle() { scheduler_.settle(clients_->most_turns()); }

  // Everybody takes what is theirs, and gives back what they hold; nothing must be left.
  void end_patiently() {
    settle();
    while (clients_->read_all()) settle();
    while (clients_->drop_everything()) settle();  // what waited for it brings more
    clients_->check_all_ended();
    clients_->trim_all();
    settle();
    clients_->check_nothing_held();
    clients_->unload_all();
    settle();
  }

  void end() {
    if (scheduler_.random().one_in(2)) settle();
    clients_->close_engine();
    settle();
    while (clients_->read_all()) settle();
    if (scheduler_.random().one_in(2)) clients_->drop_everything();
    settle();
    clients_->drop_engine();
    settle();
    while (clients_->drop_everything()) settle();  // handles and streams may outlive the engine
    settle();
    clients_->check_over();
  }

  Scheduler scheduler_;
  std::optional<Clients> clients_;
  Tally& tally_;
};

}  // namespace

void simulate(uint64_t seed, size_t steps, Tally& tally) {
  Simulation(seed, tally).run(steps);
}

}  // namespace tinyloop::sim
