// Accesses of 16 bytes: vectors of floats, and tiles that are copied while the threads compute.
// Not here: kernels (matmul_4_async.cu, matmul_5_tensor_cores.cu, layer_norm_3_registers.cu).
// CUDA C++ Programming Guide, device memory accesses and asynchronous data copies.
#pragma once

#include "cuda/launch/device.h"

namespace paragrad::cuda::ladder {

template <int N>
using Floats = Pack<float, N>;

/// Starts a copy of 16 bytes of a row-major matrix (height,width), which is zero outside. Whole
/// vectors are copied asynchronously; partial or unaligned ones, element by element.
template <class T>
__device__ void copy_vector(T* shared, const T* matrix, int height, int width, int row,
                            int column) {
  constexpr int n = 16 / sizeof(T);
  const T* from = matrix + row * width + column;
  if (row < height && column + n <= width && aligned<n>(from)) return cp_async_16(shared, from);
  for (int i = 0; i < n; ++i) shared[i] = row < height && column + i < width ? from[i] : T{};
}

/// Starts a copy by all threads of a block: `columns` columns of as many rows as `shared` has, from
/// (top,left) of the matrix on. The tile is complete after cp_async_wait and a barrier.
template <int columns, class T, int rows, int pitch>
__device__ void copy_tile(T (&shared)[rows][pitch], const T* matrix, int height, int width, int top,
                          int left) {
  constexpr int n = 16 / sizeof(T);
  for (int i = threadIdx.x * n; i < rows * columns; i += blockDim.x * n) {
    const int row = i / columns, column = i % columns;
    copy_vector(&shared[row][column], matrix, height, width, top + row, left + column);
  }
}

}  // namespace paragrad::cuda::ladder
