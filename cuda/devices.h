// The devices of a run's ranks, and the transports that move their memory: the interface of cuda/,
// which is all that programs see.
// Not here: CUDA's types; programs are compiled without its headers. Chapter 04.
#pragma once

#include "autograd/device.h"
#include "parallel/transports/transport.h"

namespace plangrad::cuda {

/// Prepares the devices of this process's ranks, once, before the first is made; `own`: each needs
/// one of its own. The emulator makes as many as there are ranks, up to 64.
/// throws: Error that says how many devices there are, if they are too few
void prepare_devices(int ranks, bool own);

/// Makes rank r's device: number r modulo the number of devices, so ranks may share one. The others
/// are CudaSettings.
/// throws: Error if plangrad's kernels do not run on it
autograd::DevicePtr make_device(int rank, bool graphs, bool tf32);

/// Makes a transport for memory of the device and of the host: by NCCL, or staged by way of
/// `inner`, which must outlive it. `timeout`: seconds that a rank waits for a message.
/// throws: Error if this build has no NCCL
std::unique_ptr<parallel::Transport> make_transport(parallel::Transport& inner,
                                                    const autograd::DevicePtr& device, bool by_nccl,
                                                    double timeout);

}  // namespace plangrad::cuda

/// Emulated devices: their library is compiled with this name in place of `cuda`.
namespace plangrad::cuda_emulated {

void prepare_devices(int ranks, bool own);
autograd::DevicePtr make_device(int rank, bool graphs, bool tf32);
std::unique_ptr<parallel::Transport> make_transport(parallel::Transport& inner,
                                                    const autograd::DevicePtr& device, bool by_nccl,
                                                    double timeout);

}  // namespace plangrad::cuda_emulated
