// OpenMP keeps the number of threads for each thread that starts a parallel loop, and oneDNN asks
// OpenMP. Not here: state of ours.
// Chapter 03.
#include "autograd/cpu/threads.h"

#include "autograd/error.h"

#if PARAGRAD_OPENMP
#include <omp.h>
#endif

namespace paragrad::autograd {

void set_compute_threads(int n) {
  PG_CHECK(n > 0, "a rank computes with at least one thread, got ", n);
#if PARAGRAD_OPENMP
  omp_set_num_threads(n);
#endif
}

int compute_threads() {
#if PARAGRAD_OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace paragrad::autograd
