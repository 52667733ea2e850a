// The GPUs of this machine, for a run's ranks.
// Not here: the emulated ones (cuda/emulator/devices.cpp).
#include "cuda/devices.h"

#include "cuda/launch/check.h"

namespace paragrad::cuda {

void prepare_devices(int ranks, bool own) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  PG_CHECK(error == cudaSuccess && count > 0, "--device cuda: no CUDA device is there",
           error == cudaSuccess ? "" : autograd::text(": ", cudaGetErrorString(error)),
           "; use --device emulator or cpu");
  PG_CHECK(!own || ranks <= count, "--transport nccl: ", ranks,
           " ranks need a CUDA device each, and this machine has ", count,
           "; use fewer ranks, or --transport threads or mpi, whose ranks can share one");
}

}  // namespace paragrad::cuda
