// Runs on pretended devices and links. PretendedNetwork: a transport around another one that holds
// messages back until they would arrive over links that a run pretends to have. prolong_to: makes
// computations last as long as on the devices that it pretends to have, by sleep, so that many
// ranks on a few cores show the times of as many devices.
// Not here: which devices (simulation/machine.h), when messages arrive (simulation/links.h), and
// the real way of the bytes, which is the inner transport's. Chapters 04 and 06.
#pragma once

#include <thread>

#include "parallel/engine/engine.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {

/// Messages over pretended links, for the ranks of one process. A message begins when both ends
/// have posted it, and is done at both ends when it arrives, as in the simulator; a send
/// whose bytes the inner transport has buffered is done at once. Messages outside of plans
/// (control_channel) are not held back. The inner transport's own all-reduce is not offered.
///   one process:     all ranks use this object, so both ends know when the other was posted
///   many processes:  each end takes the moment at which the inner transport is done for the begin
class PretendedNetwork {
 public:
  using Now = std::function<double()>;  ///< seconds since any moment
  /// `shared`: all ranks use this object. Else messages of different pairs of ranks must not wait
  /// for each other: what other processes send is not known here.
  PretendedNetwork(
      const Topology& topology, bool shared, Now now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
      });

  /// A rank's transport over these links. `inner` and the network must outlive it.
  std::unique_ptr<Transport> around(Transport& inner);

 private:
  /// One message: its line, and its number there. In many processes, one end of it.
  struct Place {
    int from, to, channel;
    std::int64_t number;
    int end;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Passage {
    int ends_posted = 0, ends_gone = 0;
    bool started = false, arrived = false;
  };
  class Held;
  class Seat;

  void post(const Place& place, std::int64_t bytes);
  void start(const Place& place, std::int64_t bytes);
  bool has_arrived(const Place& place, std::int64_t bytes);
  void forget(const Place& place);
  double wait_of(int rank);
  void update();

  std::mutex mutex_;
  Traffic traffic_;
  const bool shared_;
  const Now now_;
  std::map<Place, Passage> passages_;
  std::map<std::int64_t, Place> under_way_;  // by number in traffic_
  std::int64_t count_ = 0;
  std::set<int> told_;  // ranks with arrivals since their last wait
};

// ---- computations ----

/// A clock, and what sleeps by it. Tests bring one that does not sleep.
struct Timer {
  using Time = std::chrono::steady_clock::time_point;
  std::function<Time()> now;
  std::function<void(Time)> sleep_until;
};

/// The machine's clock. Systems wake a thread 50 to 200 microseconds too late. So it sleeps a
/// little less, and asks the clock for the rest, which takes at most a fiftieth of the time.
inline Timer real_timer() {
  using std::chrono::steady_clock;
  return {
      [] { return steady_clock::now(); },
      [](Timer::Time time) {
        constexpr steady_clock::duration longest = std::chrono::microseconds(200);
        std::this_thread::sleep_until(time - std::min(longest, (time - steady_clock::now()) / 50));
        while (steady_clock::now() < time) std::this_thread::yield();
      }};
}

/// Returns what prolongs the computations of training plans; it holds no lock, and ranks share it.
/// After the arithmetic, a rank sleeps until the device's time has passed since the computation
/// began. Arithmetic that takes longer is late and nothing hides it. Evaluations are not prolonged:
/// no report shows their times.
/// The end is the begin plus the device's time, so that a late awakening of one computation is not
/// added to the next one's arithmetic.
inline Prolong prolong_to(const Pretended& devices, const Timer& timer = real_timer()) {
  return [devices, timer](const Plan& plan, const Instruction& x, Timer::Time begun) {
    const double seconds = plan.steps > 0 ? devices.seconds(plan, x) : 0;
    if (seconds == 0) return false;
    const auto end = begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                 std::chrono::duration<double>(seconds));
    if (timer.now() > end) return true;
    timer.sleep_until(end);
    return false;
  };
}

}  // namespace plangrad::parallel
