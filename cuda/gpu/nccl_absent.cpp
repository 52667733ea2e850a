// The stand-in for nccl_transport.cpp where NCCL was not found.
// Chapter 04.
#include "cuda/transport/staged_transport.h"

namespace plangrad::cuda {

std::unique_ptr<Transport> make_nccl_transport(Transport&, CudaBackend&, double) {
  throw autograd::Error(
      "--transport nccl: this build has no NCCL; install it and build with -DPLANGRAD_NCCL=ON, or "
      "use --transport threads or mpi");
}

}  // namespace plangrad::cuda
