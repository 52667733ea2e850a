// The parts of device.h that are CUDA's alone: inline PTX, and shared memory of a size that the
// launch gives.
// Not here: their twins for the emulator (cuda/emulator/device_emulated.h).
// PTX ISA, instruction set.
#pragma once

#include <cuda_runtime.h>

namespace paragrad::cuda {

/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char paragrad_dynamic_shared[];
  return reinterpret_cast<T*>(paragrad_dynamic_shared);
}

/// The sum over the lanes of a warp, in every lane: 5 steps of a butterfly.
template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

template <class T>
__device__ T warp_max(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = max(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

/// sizeof(V) bytes at once; the address must be a multiple of that.
template <class V, class T>
__device__ V load(const T* address) {
  return *reinterpret_cast<const V*>(address);
}
template <class V, class T>
__device__ void store(T* address, V value) {
  *reinterpret_cast<V*>(address) = value;
}

}  // namespace paragrad::cuda
