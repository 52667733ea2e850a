// Definitions that the calls of the CUDA runtime share; and peers: devices that have met in a
// communicator, so that each can use the other's memory. A call that allocates or frees memory may
// then wait for the work of all of them.
// Not here: the calls (runtime_*.cpp), of which those that keep to a stream's order never wait.
// CUDA Runtime API, error handling. NCCL's issue 744; NCCL user guide, in-place operations and
// concurrency; chapter 13.
#pragma once

#include <memory>
#include <vector>

#include "cuda/emulator/cuda_runtime.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/stream.h"

namespace plangrad::cuda::emulator {

/// The current device of this thread's calls.
int current_device();

/// `error`, kept for cudaGetLastError; or what a kernel of this device has left behind.
cudaError_t finish(cudaError_t error);

/// Each later call for the device returns this error: its kernels have failed.
void fail_device(int device, cudaError_t error);

/// The stream of a handle; 0 is the current device's default stream. Null if there is none.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);
/// Forgets the streams and events that programs have made.
void forget_handles();
/// Forgets raised limits: no kernel may have more shared memory than it has without asking.
void forget_shared_limits();
/// Allocates for a device, or pinned host memory; for the result of a call.
cudaError_t allocate_for(int device, void** start, std::size_t bytes);
/// The live allocation of a device, or of pinned memory, that starts here.
std::optional<Allocation> owned(void* start, bool pinned);
/// Waits for the positions; for the result of a call.
cudaError_t wait_result(const std::vector<Position>& positions);

/// Makes these devices peers of each other, until reset().
void make_peers(const std::vector<int>& devices);

/// To be called where CUDA may wait for the peers of the current device. If the dice of the
/// settings say so, waits for all that is queued on them now; and no other thread can queue work on
/// this device before that has ended, as the driver holds its lock.
cudaError_t wait_for_peers();

/// The calls so far, since the device has peers, that might have waited for them.
int calls_that_may_wait(int device);

}  // namespace plangrad::cuda::emulator
