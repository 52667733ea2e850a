// CUDA's runtime for host code: its errors as plangrad's Error, and streams and events that are
// destroyed at the end of their scope.
// Not here: errors that a kernel finds while it runs; a later call returns those.
// CUDA C++ Programming Guide, streams and events; CUDA Runtime API, error handling.
#pragma once

#include <cuda_runtime.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "autograd/error.h"

namespace plangrad::cuda {

/// Throws an Error that names the call, unless the call has succeeded.
inline void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cudaGetLastError();  // clears it, as CUDA would return it again
  PG_CHECK(error == cudaSuccess, call, ": ", cudaGetErrorString(error), " (",
           cudaGetErrorName(error), ")");
}

#define PG_CUDA(call) ::plangrad::cuda::check(call, #call)

/// The launch of a kernel, for messages: with its name, where CUDA (12.3 or later) tells it.
inline std::string kernel_call(const void* kernel) {
  const char* name = nullptr;
#if CUDART_VERSION >= 12030
  if (cudaFuncGetName(&name, kernel) != cudaSuccess) name = nullptr;
#else
  (void)kernel;
#endif
  if (!name) return "launch of a kernel";
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return std::string("launch of ") + (status == 0 ? plain.get() : name);
}

/// A handle that a call of CUDA made, or nothing yet; destroyed at the end of its scope.
template <class T, auto destroy>
struct Handle {
  T made;

  explicit Handle(T made = nullptr) : made(made) {}
  ~Handle() {
    if (made) destroy(made);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator T() const { return made; }
};

/// A stream of the device that is current when it is made; it waits for no other stream by itself.
/// The blocks of an urgent one, which carries messages, go before those of kernels that wait.
struct Stream : Handle<cudaStream_t, cudaStreamDestroy> {
  enum Haste { normal, urgent };
  explicit Stream(Haste haste = normal) {
    int least = 0, greatest = 0;
    PG_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    PG_CUDA(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                         haste == urgent ? greatest : least));
  }
};

/// A mark in a stream: others can wait for all work that was queued before it.
struct Event : Handle<cudaEvent_t, cudaEventDestroy> {
  Event() { PG_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming)); }

  void record(cudaStream_t stream) { PG_CUDA(cudaEventRecord(made, stream)); }
  /// Makes work that is queued on the stream from now on wait for the mark; the host does not wait.
  void hold(cudaStream_t stream) const { PG_CUDA(cudaStreamWaitEvent(stream, made, 0)); }
  /// Whether the work before the mark is complete; does not wait.
  bool reached() const {
    const cudaError_t state = cudaEventQuery(made);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // it is no error
      return false;
    }
    check(state, "cudaEventQuery");
    return true;
  }
  /// Waits, for destructors: errors of the work are thrown by other calls.
  void finish() const noexcept { cudaEventSynchronize(made); }
};

/// Page-locked host memory, which a device can copy while the host continues.
struct Pinned : Handle<void*, cudaFreeHost> {
  explicit Pinned(std::size_t bytes) { PG_CUDA(cudaMallocHost(&made, bytes)); }
};

}  // namespace plangrad::cuda
