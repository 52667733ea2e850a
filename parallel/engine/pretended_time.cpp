// The end of a computation is its begin plus the device's time, so that a late awakening of one is
// not added to the next one's arithmetic.
// Chapter 06.
#include "parallel/engine/pretended_time.h"

#include <algorithm>
#include <thread>

namespace plangrad::parallel {

namespace {

/// Systems wake a thread 50 to 200 microseconds too late. So it sleeps a little less, and asks the
/// clock for the rest, which takes at most a fiftieth of the time.
void sleep_until(Timer::Time time) {
  using std::chrono::steady_clock;
  constexpr steady_clock::duration longest = std::chrono::microseconds(200);
  std::this_thread::sleep_until(time - std::min(longest, (time - steady_clock::now()) / 50));
  while (steady_clock::now() < time) std::this_thread::yield();
}

}  // namespace

Timer real_timer() {
  return {[] { return std::chrono::steady_clock::now(); }, sleep_until};
}

Prolong prolong_to(const Pretended& devices, const Timer& timer) {
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
