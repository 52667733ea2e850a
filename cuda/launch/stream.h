// Streams and events of CUDA that end with their scope.
// Not here: the backend's own stream, on which kernels run (cuda_backend.h).
// CUDA C++ Programming Guide, streams and events.
#pragma once

#include <cuda_runtime.h>

#include "cuda/launch/check.h"

namespace paragrad::cuda {

/// Of the device that is current when it is made; waits for no other stream by itself.
class Stream {
 public:
  Stream() { PG_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A mark in a stream: what was queued before it, others can wait for.
class Event {
 public:
  Event() { PG_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { PG_CUDA(cudaEventRecord(event_, stream)); }
  /// What is queued on the stream from now on waits for the mark; the host does not.
  void hold(cudaStream_t stream) const { PG_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  /// Never waits.
  bool reached() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }
  /// Waits. For destructors: what has failed is the error of another call.
  void finish() const noexcept { cudaEventSynchronize(event_); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace paragrad::cuda
