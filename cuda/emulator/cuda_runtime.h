// The part of the CUDA runtime's interface that plangrad uses, on the emulated machine.
// Not here: the rest of the toolkit's header of this name. Names, values and meanings are CUDA's;
// calls that CUDA rejects are rejected with the same error code.
// CUDA Runtime API reference; CUDA C++ Programming Guide.
#pragma once

/// The release of CUDA whose calls these are: 12.3.
#define CUDART_VERSION 12030

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include "cuda/emulator/device_functions.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/kernel_language.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorLaunchTimeout = 702,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorGraphExecUpdateFailure = 910,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
/// The last error of this thread's calls; the first forgets it, unless a kernel has failed.
cudaError_t cudaGetLastError();

// ---- devices ---------------------------------------------------------------------------------
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
  int warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int multiProcessorCount, major, minor;
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);

// ---- memory ----------------------------------------------------------------------------------
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address);
cudaError_t cudaMalloc(void** start, std::size_t bytes);
cudaError_t cudaFree(void* start);
cudaError_t cudaMallocAsync(void** start, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* start, cudaStream_t stream);
cudaError_t cudaMallocHost(void** start, std::size_t bytes);

/// What cudaMallocAsync takes memory from. Of its attributes, one is emulated.
using cudaMemPool_t = struct CUmemPoolHandle_st*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtReadWrite = 3 };
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaMemAccessDesc {
  cudaMemLocation location;
  cudaMemAccessFlags flags;
};
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                 std::size_t count);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes);
cudaError_t cudaFreeHost(void* start);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* start, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* start, int value, std::size_t bytes,
                            cudaStream_t stream = nullptr);

template <class T>
cudaError_t cudaMalloc(T** start, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(start), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** start, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(start), bytes, stream);
}
template <class T>
cudaError_t cudaMallocHost(T** start, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(start), bytes);
}

// ---- streams and events ----------------------------------------------------------------------
constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

cudaError_t cudaFuncGetName(const char** name, const void* kernel);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument);

cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop);

// ---- graphs ----------------------------------------------------------------------------------
// A stream that does not wait for the default stream records kernels, products, memsets, copies
// without pageable memory and host functions. CUDA can record more: events, and other streams that
// wait for them. Here, as there, what cannot be recorded spoils what has been.
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;

/// Others forbid calls that plangrad makes while it records.
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess = 0,
  cudaGraphExecUpdateErrorTopologyChanged = 2,
  cudaGraphExecUpdateErrorNodeTypeChanged = 3,
  cudaGraphExecUpdateErrorNotSupported = 6,
};
struct cudaGraphExecUpdateResultInfo {
  cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
/// Sets `count` to the number of nodes; `nodes` must be null.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
/// From now on it does what the graph does, whose nodes are as many and of the same kinds.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

// ---- launching -------------------------------------------------------------------------------
struct cudaLaunchAttribute {};  // none is emulated
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

namespace plangrad::cuda::emulator {
cudaError_t launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> kernel);
cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value);
}  // namespace plangrad::cuda::emulator

/// Arguments travel through host memory, which checked builds forbid kernels to read.
#if defined(__SANITIZE_THREAD__)
#define PLANGRAD_UNWATCHED __attribute__((no_sanitize("thread"), noipa))
#else
#define PLANGRAD_UNWATCHED
#endif

/// Queues kernel(arguments...), which are copied now.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  return plangrad::cuda::emulator::launch(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, values = std::move(values)]() PLANGRAD_UNWATCHED {
        auto call = [kernel](const Parameters&... value) PLANGRAD_UNWATCHED { kernel(value...); };
        std::apply(call, values);
      });
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return plangrad::cuda::emulator::set_attribute(reinterpret_cast<const void*>(kernel), attribute,
                                                 value);
}
