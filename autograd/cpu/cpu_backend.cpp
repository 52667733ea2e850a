// CpuBackend's use of the host: copies, and the number of threads, which OpenMP keeps for each
// thread that starts a parallel loop; oneDNN asks OpenMP for it.
// Not here: memory (kept_blocks.h). Chapter 03.
#include "autograd/cpu/cpu_backend.h"

#include <cstring>

#if PLANGRAD_OPENMP
#include <omp.h>
#endif

namespace plangrad::autograd {

const char* CpuBackend::name() const { return "cpu"; }

DevicePtr cpu_device() { return std::make_shared<Device>(std::make_shared<CpuBackend>()); }

void CpuBackend::copy_from_host(const void* source, Out y) {
  if (y.bytes()) std::memcpy(y.raw(), source, y.bytes());
}

void CpuBackend::copy_to_host(In x, void* target) {
  if (x.bytes()) std::memcpy(target, x.raw(), x.bytes());
}

void set_compute_threads(int n) {
  PG_CHECK(n > 0, "a rank needs at least one thread, got ", n);
#if PLANGRAD_OPENMP
  omp_set_num_threads(n);
#endif
}

int compute_threads() {
#if PLANGRAD_OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace plangrad::autograd
