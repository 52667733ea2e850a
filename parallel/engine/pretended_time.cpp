// The end of a computation is its begin plus the device's time, so that a late awakening of one is
// not added to the next one's arithmetic.
// Chapter 06.
#include "parallel/engine/pretended_time.h"

#include <thread>

namespace paragrad::parallel {

Timer real_timer() {
  return {[] { return std::chrono::steady_clock::now(); },
          [](Timer::Time time) { std::this_thread::sleep_until(time); }};
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

}  // namespace paragrad::parallel
