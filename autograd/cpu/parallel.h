// parallel_for and parallel_each: loops cut into one piece per thread, by OpenMP where it is there.
// Not here: reductions over pieces. Results must not depend on where a loop was cut.
// Chapter 03.
#pragma once

#include <algorithm>
#include <cstdint>

#include "autograd/cpu/threads.h"

#if PARAGRAD_OPENMP
#include <omp.h>
#endif

namespace paragrad::autograd::cpu {

/// Calls body(first, last) on disjoint ranges that together are [0, count). `grain` is the least
/// number of items worth a thread: waking one costs about as much as 20,000 additions.
/// The body must not throw.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
#if PARAGRAD_OPENMP
  std::int64_t pieces =
      std::min<std::int64_t>(compute_threads(), count / std::max<std::int64_t>(grain, 1));
  if (pieces > 1 && !omp_in_parallel()) {
#pragma omp parallel num_threads(static_cast <int>(pieces))
    {
      std::int64_t i = omp_get_thread_num(), n = omp_get_num_threads();
      body(count * i / n, count * (i + 1) / n);
    }
    return;
  }
#else
  (void)grain;
#endif
  if (count > 0) body(0, count);
}

/// Element-wise loops: so many elements are worth a thread.
inline constexpr std::int64_t element_grain = 16384;

/// Calls body(i) for each i in [0, count), in several threads. `work`: what a call costs, in
/// elements of an element-wise loop. The body must not throw.
template <class Body>
void parallel_each(std::int64_t count, std::int64_t work, Body&& body) {
  parallel_for(count, element_grain / std::max<std::int64_t>(work, 1) + 1,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) body(i);
               });
}

}  // namespace paragrad::autograd::cpu
