// PretendedTime: makes computations last as long as on the devices that a run pretends to have, by
// sleep, so that many ranks on a few cores show the times of as many devices.
// Not here: which devices (simulation/pretended.h), and messages (transports/pretended_links.h).
// Chapter 06.
#pragma once

#include "parallel/engine/engine.h"
#include "parallel/simulation/pretended.h"

namespace plangrad::parallel {

/// A clock, and what sleeps by it. Tests bring one that does not sleep.
struct Timer {
  using Time = std::chrono::steady_clock::time_point;
  std::function<Time()> now;
  std::function<void(Time)> sleep_until;
};

/// The machine's clock.
Timer real_timer();

/// Returns what prolongs the computations of training plans; it holds no lock, and ranks share it.
/// After the arithmetic, a rank sleeps until the device's time has passed since the computation
/// began. Arithmetic that takes longer is late and nothing hides it. Evaluations are not prolonged:
/// no report shows their times.
Prolong prolong_to(const Pretended& devices, const Timer& timer = real_timer());

}  // namespace plangrad::parallel
