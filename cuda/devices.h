// The devices of a run's ranks, and the transports that move their memory: the door of cuda/, which
// is all that programs see.
// Not here: CUDA's types; programs are compiled without its headers. Chapter 04.
#pragma once

#include "autograd/device.h"
#include "parallel/transports/transport.h"

namespace paragrad::cuda {

/// Prepares the devices of `ranks` ranks, once, before the first is made; `own`: each rank needs a
/// device that no other has. The emulator makes as many devices as there are ranks, up to 64.
/// throws: Error that says what there is, if that is not enough
void prepare_devices(int ranks, bool own);

/// Rank r's device: number r modulo the number of devices, which ranks share if they are more.
/// `graphs`: CudaSettings::graphs.
/// throws: Error if it is none that paragrad's kernels run on
autograd::DevicePtr make_device(int rank, bool graphs);

/// A transport for memory of the device, and the host: by NCCL, or staged by way of `inner`,
/// which must outlive it. `timeout`: seconds that a rank waits for a message.
/// throws: Error if this build has no NCCL
std::unique_ptr<parallel::Transport> make_transport(parallel::Transport& inner,
                                                    const autograd::DevicePtr& device, bool by_nccl,
                                                    double timeout);

}  // namespace paragrad::cuda

/// Emulated devices: their library is compiled with this name for `cuda`.
namespace paragrad::cuda_emulated {

void prepare_devices(int ranks, bool own);
autograd::DevicePtr make_device(int rank, bool graphs);
std::unique_ptr<parallel::Transport> make_transport(parallel::Transport& inner,
                                                    const autograd::DevicePtr& device, bool by_nccl,
                                                    double timeout);

}  // namespace paragrad::cuda_emulated
