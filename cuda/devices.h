// The devices of a run's ranks, and the transports that move their memory: what programs need of
// this folder.
// Not here: CUDA's types; programs are compiled without its headers. Chapter 04.
#pragma once

#include "autograd/device.h"
#include "parallel/transport.h"

namespace paragrad::cuda {

/// Where ranks compute.
struct RankDevices {
  int ranks = 1;
  bool own = false;  ///< each rank needs a device that no other has
};

/// Before the first device is made: the emulator makes as many devices as there are ranks, up to
/// 64; of GPUs, there must be one, or one for each rank that needs its own.
/// throws: Error that says what there is
void prepare_devices(const RankDevices& wanted);

/// Rank r's device: number r modulo the number of devices, which ranks share if they are more.
/// throws: Error if it is none that paragrad's kernels run on
autograd::DevicePtr make_device(int rank);

/// A transport for memory of the device, and the host: by NCCL, or staged by way of `inner`,
/// which must outlive it. By NCCL, all ranks make it together.
/// throws: Error if NCCL fails, or a rank takes longer than `timeout` seconds
std::unique_ptr<parallel::Transport> make_transport(parallel::Transport& inner,
                                                    const autograd::DevicePtr& device, bool by_nccl,
                                                    double timeout);

}  // namespace paragrad::cuda
