// PretendedTime: makes computations last as long as on the devices that a run pretends to have, by
// sleep, so that many ranks on a few cores show the times of as many devices.
// Not here: which devices (simulation/pretended.h), and messages (engine/pretended_links.h).
// Chapter 06.
#pragma once

#include <thread>

#include "parallel/engine/engine.h"
#include "parallel/simulation/pretended.h"

namespace plangrad::parallel {

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
