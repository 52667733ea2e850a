// What kernels of f32 and bf16 tensors share: types, conversion, several elements at once, and
// launches.
// Not here: kernels, and what differs between GPU and emulator (cuda/launch/device.h).
// Chapter 03; CUDA C++ Programming Guide, device memory accesses.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/backend/cuda_backend.h"
#include "cuda/launch/device.h"

/// Tensor::data knows bf16 under CUDA's name as well.
template <>
struct paragrad::autograd::DTypeOf<__nv_bfloat16> {
  static constexpr DType value = DType::bf16;
};

namespace paragrad::cuda {

/// throws: Error that says what to do, if the tensor is of f64
inline void refuse_f64(const autograd::Tensor& x) {
  PG_CHECK(x.dtype() != autograd::DType::f64, "cuda: expected f32 or bf16, got ", x,
           "; f64 is for the CPU: use that, or f32");
}

/// Calls `kernel.template operator()<T>()` with float or __nv_bfloat16, as the tensor is.
/// throws: Error if it is neither
template <class Kernel>
void dispatch(const autograd::Tensor& x, Kernel&& kernel) {
  refuse_f64(x);
  if (x.dtype() == autograd::DType::f32) return kernel.template operator()<float>();
  if (x.dtype() == autograd::DType::bf16) return kernel.template operator()<__nv_bfloat16>();
  PG_CHECK(false, "cuda: this operation needs a floating-point tensor, not ", x);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T from_float(float x) {
  if constexpr (sizeof(T) == sizeof(float))
    return x;
  else
    return __float2bfloat16(x);
}

/// The exp of autograd/formulas.h on a GPU.
struct Math {
  __host__ __device__ static float exp(float x) { return expf(x); }
};

/// N neighbouring elements, loaded and stored at once: at most 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

/// The pack of f(0), f(1), ..., converted to T.
template <class T, int N, class F>
__device__ Pack<T, N> pack(F f) {
  Pack<T, N> result;
  PG_UNROLL
  for (int i = 0; i < N; ++i) result.at[i] = from_float<T>(f(i));
  return result;
}

/// How many elements of T are 16 bytes.
template <class T>
constexpr int pack_size = 16 / sizeof(T);

/// Whether packs of N elements from this address on can be loaded.
template <int N, class T>
bool aligned(const T* address) {
  return reinterpret_cast<std::uintptr_t>(address) % (N * sizeof(T)) == 0;
}

/// Whether rows of `width` elements of type T can be taken in whole packs of 16 bytes from all of
/// these tensors.
template <class T, class... Tensors>
bool packs_fit(std::int64_t width, const Tensors&... tensors) {
  constexpr int n = pack_size<T>;
  return width % n == 0 && (aligned<n>(tensors.template data<T>()) && ...);
}

/// The blocks of kernels that have a thread for each item, and the number of a thread's item.
constexpr int item_threads = 256;
__device__ inline std::int64_t item_number() {
  return std::int64_t{blockIdx.x} * item_threads + threadIdx.x;
}

/// An argument as the kernel's parameter: of a tensor, its address.
template <class Parameter, class Argument>
decltype(auto) as_parameter(Argument&& argument) {
  if constexpr (std::is_same_v<std::remove_cvref_t<Argument>, Tensor>)
    return argument.template data<std::remove_cv_t<std::remove_pointer_t<Parameter>>>();
  else
    return std::forward<Argument>(argument);
}

template <class... Parameters, class... Arguments>
void CudaBackend::run_each(void (*kernel)(std::int64_t, Parameters...), std::int64_t count,
                           Arguments&&... arguments) const {
  run(kernel, dim3(blocks_for(count, item_threads)), dim3(item_threads), count,
      std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
void CudaBackend::run(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                      Arguments&&... arguments) const {
  run_shared(kernel, grid, block, 0, std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
void CudaBackend::run_shared(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                             std::size_t shared_bytes, Arguments&&... arguments) const {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  use();
  // More than 48 KiB must be asked for, and the kernel's static shared memory counts as well.
  if (shared_bytes > 32 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) cudaGetLastError();  // CUDA would return it once more
    PG_CHECK(error == cudaSuccess, "cuda: a kernel needs ", shared_bytes,
             " bytes of shared memory a block, more than device ", ordinal_,
             " has; use narrower rows");
  }
  launch(kernel, grid, block, shared_bytes, queue(),
         as_parameter<Parameters>(std::forward<Arguments>(arguments))...);
}

}  // namespace paragrad::cuda
