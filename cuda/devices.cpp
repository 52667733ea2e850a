// Makes devices and transports behind their interfaces, without CUDA's types. Chapter 04.
#include "cuda/devices.h"

#include "cuda/transport/staged_transport.h"

namespace plangrad::cuda {

autograd::DevicePtr make_device(int rank, bool graphs, bool tf32) {
  int count = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  return cuda_device(rank % count, {.graphs = graphs, .tf32 = tf32});
}

std::unique_ptr<Transport> make_transport(Transport& inner, const autograd::DevicePtr& device,
                                          bool by_nccl, double timeout) {
  auto& backend = dynamic_cast<CudaBackend&>(device->backend());
  if (by_nccl) return make_nccl_transport(inner, backend, timeout);
  return std::make_unique<StagedTransport>(inner, backend);
}

}  // namespace plangrad::cuda
