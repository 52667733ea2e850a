// Types, conversion, several elements at once, and launches, for all kernels of f32 and bf16.
// Not here: kernels, and what differs between GPU and emulator (cuda/launch/device.h).
// Chapter 03; CUDA C++ Programming Guide, device memory accesses.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>

#include "cuda/backend/cuda_backend.h"
#include "cuda/launch/device.h"

/// Lets Tensor::data accept bf16 under CUDA's name.
template <>
struct plangrad::autograd::DTypeOf<__nv_bfloat16> {
  static constexpr DType value = DType::bf16;
};

namespace plangrad::cuda {

/// throws: Error that says what to do, if the tensor has type f64
inline void refuse_f64(const Tensor& x) {
  PG_CHECK(x.dtype() != DType::f64, "cuda: expected f32 or bf16, got ", x,
           "; f64 is for the CPU: use that, or f32");
}

/// Calls `kernel.template operator()<T>()` with float or __nv_bfloat16, the type of the tensor.
/// throws: Error if the tensor has another type
template <class Kernel>
void dispatch(const Tensor& x, Kernel&& kernel) {
  refuse_f64(x);
  if (x.dtype() == DType::f32) return kernel.template operator()<float>();
  if (x.dtype() == DType::bf16) return kernel.template operator()<__nv_bfloat16>();
  PG_CHECK(false, "cuda: this operation needs a floating-point tensor, not ", x);
}

/// The number of elements of T in 16 bytes.
template <class T>
constexpr int pack_size = 16 / sizeof(T);

/// Calls `kernel.template operator()<T, N>()` with T, the type of the first tensor. N elements are
/// 16 bytes if rows of `width` elements of all these tensors consist of whole packs; else N is 1.
template <class Kernel>
void dispatch_packs(std::int64_t width,
                    std::initializer_list<std::reference_wrapper<const Tensor>> tensors,
                    Kernel&& kernel) {
  dispatch(*tensors.begin(), [&]<class T>() {
    constexpr int n = pack_size<T>;
    auto fits = [](const Tensor& x) { return aligned<16>(x.raw()); };
    if (width % n == 0 && std::all_of(tensors.begin(), tensors.end(), fits))
      kernel.template operator()<T, n>();
    else
      kernel.template operator()<T, 1>();
  });
}

/// Calls `kernel.template operator()<Word>()` with the longest word, of 1 to 16 bytes, that divides
/// all of these addresses and numbers of bytes, for kernels that only move bytes.
template <class Kernel, class... Numbers>
void dispatch_words(Kernel&& kernel, Numbers... numbers) {
  const std::uint64_t bits = (std::uint64_t(numbers) | ... | 0);
  if (bits % 16 == 0) return kernel.template operator()<uint4>();
  if (bits % 8 == 0) return kernel.template operator()<uint2>();
  if (bits % 4 == 0) return kernel.template operator()<std::uint32_t>();
  if (bits % 2 == 0) return kernel.template operator()<std::uint16_t>();
  return kernel.template operator()<std::uint8_t>();
}

inline std::uint64_t address_of(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
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

/// The factor of exponents that turns powers of e into powers of 2, which GPUs compute.
constexpr float log2_e = 1.44269504088896341f;

/// Functions of autograd/formulas.h on a GPU.
struct Math {
  __host__ __device__ static float exp(float x) { return expf(x); }
  /// 1 / (1 + e^-x), with e^-x up to 2^126, so that the sum has an inverse.
  __device__ static float sigmoid(float x) {
    return fast_inverse(1 + fast_exp2(::min(-log2_e * x, 126.0f)));
  }
};

/// Makes a pack of f(0), f(1), ..., converted to T.
template <class T, int N, class F>
__device__ Pack<T, N> pack(F f) {
  Pack<T, N> result;
  PG_UNROLL
  for (int i = 0; i < N; ++i) result.at[i] = from_float<T>(f(i));
  return result;
}

/// The kernel that used an index.
enum class IndexUse : int { none, gather, expand, collect, scatter, cross_entropy, embedding };

/// The first wrong index since the host last asked, in device memory; without one, `use` is none.
struct IndexFault {
  int use = 0;
  int index = 0;
  std::int64_t limit = 0;
};

/// Whether the index is in [0, limit). If not, records a fault; the kernel must skip the element.
__device__ inline bool inside(int index, std::int64_t limit, IndexUse use, IndexFault* fault) {
  if (index >= 0 && index < limit) return true;
  if (atomicCAS(&fault->use, 0, static_cast<int>(use)) == 0) {
    fault->index = index;
    fault->limit = limit;
  }
  return false;
}

/// Converts an argument to a kernel's parameter: tensors to addresses, bytes to words, numbers to
/// the kernel's types.
template <class Parameter, class Argument>
Parameter as_parameter(const Argument& argument) {
  if constexpr (std::is_same_v<Argument, Tensor>)
    return argument.template data<std::remove_cv_t<std::remove_pointer_t<Parameter>>>();
  else if constexpr (std::is_convertible_v<Argument, const std::byte*>)
    return reinterpret_cast<Parameter>(argument);
  else
    return static_cast<Parameter>(argument);
}

template <class... Parameters, class... Arguments>
void CudaBackend::run(void (*kernel)(Parameters...), Grid grid,
                      const Arguments&... arguments) const {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  use();
  // More than 48 KiB must be requested, and the kernel's static shared memory counts, too.
  if (grid.shared_bytes > 32 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes));
    if (error != cudaSuccess) cudaGetLastError();  // clears it, as CUDA would return it again
    PG_CHECK(error == cudaSuccess, "cuda: a kernel needs ", grid.shared_bytes,
             " bytes of shared memory per block, more than device ", ordinal_,
             " has; use narrower rows");
  }
  queue_kernel<Parameters...>(kernel, grid, as_parameter<Parameters>(arguments)...);
}

template <class... Parameters>
void CudaBackend::queue_kernel(void (*kernel)(Parameters...), Grid grid,
                               Parameters... parameters) const {
  if (gathering()) (graphs_->move_value(parameters), ...);
  auto call = [=](cudaStream_t stream) {
    launch(kernel, grid.blocks, grid.threads, grid.shared_bytes, stream, parameters...);
  };
  queue(call, kernel, grid, parameters...);
}

/// The threads per block of kernels with one thread or warp per item.
constexpr int item_threads = 256;

template <auto body, int lanes, class... Parameters>
__global__ void __launch_bounds__(item_threads)
    each_kernel(std::int64_t count, Parameters... parameters) {
  const std::int64_t item = std::int64_t{blockIdx.x} * (item_threads / lanes) + threadIdx.x / lanes;
  if (item < count) body(item, parameters...);
}

/// The kernel of a body void(std::int64_t item, Parameters...). Structures that the body takes by
/// reference stay in the kernel's parameters; a copy with an array would go to local memory.
template <auto body, int lanes, class Body = decltype(body)>
struct Each;
template <auto body, int lanes, class... Parameters>
struct Each<body, lanes, void (*)(std::int64_t, Parameters...)> {
  static constexpr auto kernel = each_kernel<body, lanes, std::remove_cvref_t<Parameters>...>;
};

template <auto body, int lanes, class... Arguments>
void CudaBackend::run_each(std::int64_t count, const Arguments&... arguments) const {
  run(Each<body, lanes>::kernel, {blocks_for(count, item_threads / lanes), item_threads}, count,
      arguments...);
}

// Kernels with one block per row of a matrix.

constexpr unsigned most_row_threads = 1024;
constexpr int row_elements = 8;  // elements per thread in rows that a block can cover

/// The number of threads for a row of this width: whole warps.
inline unsigned row_threads(std::int64_t width) {
  return std::clamp(blocks_for(width, row_elements * 32) * 32, 32u, most_row_threads);
}
inline Grid block_for_rows(const Tensor& x) {
  return {static_cast<unsigned>(x.size(0)), row_threads(x.size(1))};
}

/// Calls body(c, pack) for this thread's packs of N elements of a row; c is the first column of a
/// pack. N divides the width.
template <int N, class T, class Body>
__device__ void for_packs(const T* row, std::int64_t width, Body body) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < width; c += blockDim.x * N)
    body(c, load<Pack<T, N>>(row + c));
}

}  // namespace plangrad::cuda
