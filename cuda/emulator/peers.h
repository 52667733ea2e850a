// Peers: devices that have met in a communicator, so that each can use the other's memory. A call
// that allocates or frees memory may then wait for the work of all of them.
// Not here: calls that keep to the order of a stream, cudaMallocAsync and cudaFreeAsync.
// NCCL's issue 744; NCCL user guide, in-place operations and concurrency; chapter 13.
#pragma once

#include <vector>

#include "cuda/emulator/cuda_runtime.h"

namespace plangrad::cuda::emulator {

/// Makes these devices peers of each other, until reset().
void make_peers(const std::vector<int>& devices);

/// To be called where CUDA may wait for the peers of the current device. If the dice of the
/// settings say so, waits for all that is queued on them now; and no other thread can queue work on
/// this device before that has ended, as the driver holds its lock.
cudaError_t wait_for_peers();

/// The calls so far, since the device has peers, that might have waited for them.
int calls_that_may_wait(int device);

}  // namespace plangrad::cuda::emulator
