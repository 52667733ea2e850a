// The GPUs of this machine, for a run's ranks.
// Not here: the emulated ones (cuda/emulator/devices.cpp).
//
// The room cuda/gpu is the side of cuda/devices.h that only a build for GPUs has: whether there are
// enough GPUs, as the emulator makes as many as it is asked for; and an error in place of NCCL,
// which the emulator always has. All else of cuda/ is compiled by both. Chapter 04.
#include "cuda/devices.h"

#include "cuda/transport/staged_transport.h"

namespace plangrad::cuda {

/// A device has 8 queues if nobody says how many, and streams that share one wait for each other:
/// with kernels that wait for other ranks, for ever. To load a kernel may wait for the devices of
/// all ranks of the process, too, so that several ranks load all at the start. And NCCL connects
/// ranks when an algorithm is first used, which depends on the size of a sum, unless it is told to
/// do so when they join. CUDA and NCCL read these variables at their first call.
void prepare_devices(int ranks, bool own) {
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (ranks > 1) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  PG_CHECK(error == cudaSuccess && count > 0, "--device cuda: no CUDA device is there",
           error == cudaSuccess ? "" : autograd::text(": ", cudaGetErrorString(error)),
           "; use --device emulator or cpu");
  PG_CHECK(!own || ranks <= count, "--transport nccl: ", ranks,
           " ranks need a CUDA device each, and this machine has ", count,
           "; use fewer ranks, or --transport threads or mpi, whose ranks can share one");
}

#if !PLANGRAD_NCCL
std::unique_ptr<Transport> make_nccl_transport(Transport&, CudaBackend&, double) {
  throw autograd::Error(
      "--transport nccl: this build has no NCCL; install it and build with -DPLANGRAD_NCCL=ON, or "
      "use --transport threads or mpi");
}
#endif

}  // namespace plangrad::cuda
