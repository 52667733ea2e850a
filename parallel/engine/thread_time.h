// thread_seconds: the time that a thread computes, as opposed to the time that passes.
// Not here: who asks (interpreter.cpp), and what follows (simulation/own_cores.h). Chapter 06.
#pragma once

#include <ctime>

namespace plangrad::parallel {

/// Seconds that a core has spent on the calling thread. While the thread waits for its turn on a
/// core, or for something else, this clock stands. It doesn't count what other threads do for this
/// one: the helpers of a kernel on several threads, or a GPU.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace plangrad::parallel
