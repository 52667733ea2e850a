// Accesses of 16 bytes: vectors of elements, and tiles that are copied while the threads compute.
// Not here: kernels; those that load tiles or rows by vectors include this.
// CUDA C++ Programming Guide, device memory accesses and asynchronous data copies.
#pragma once

#include "cuda/launch/device.h"

namespace plangrad::cuda::kernels {

template <int N>
using Floats = Pack<float, N>;

/// As many elements as 16 bytes hold.
template <class T>
using Vector = Pack<T, 16 / sizeof(T)>;

/// Whether the vector at (row,column) of a row-major matrix (height,width) lies inside of it, at an
/// address that is a multiple of 16.
template <class T>
__device__ bool is_whole(const T* matrix, int height, int width, int row, int column) {
  constexpr int n = 16 / sizeof(T);
  return row < height && column + n <= width && aligned<n>(matrix + row * width + column);
}

/// Loads the vector at (row,column) of a row-major matrix (height,width), which is zero outside: in
/// one piece, or, if it is partial or unaligned, element by element.
template <class T>
__device__ Vector<T> vector_at(const T* matrix, int height, int width, int row, int column) {
  constexpr int n = 16 / sizeof(T);
  const T* from = matrix + row * width + column;
  if (is_whole(matrix, height, width, row, column)) return load<Vector<T>>(from);
  Vector<T> result;
  for (int i = 0; i < n; ++i) result.at[i] = row < height && column + i < width ? from[i] : T{};
  return result;
}

/// Calls body(row, column) for each vector of a tile (rows,columns), by all threads of a block.
template <class T, int rows, int columns, class Body>
__device__ void for_each_vector(Body body) {
  constexpr int n = 16 / sizeof(T);
  for (int i = threadIdx.x * n; i < rows * columns; i += blockDim.x * n)
    body(i / columns, i % columns);
}

/// Loads `columns` columns of as many rows as `shared` has, from (top,left) of the matrix on. The
/// tile is complete after a barrier.
template <int columns, class T, int rows, int pitch>
__device__ void load_tile(T (&shared)[rows][pitch], const T* matrix, int height, int width, int top,
                          int left) {
  for_each_vector<T, rows, columns>([&](int row, int column) {
    store(&shared[row][column], vector_at(matrix, height, width, top + row, left + column));
  });
}

/// Starts to copy such a tile: whole vectors asynchronously, without passing through registers. The
/// tile is complete after cp_async_wait and a barrier.
template <int columns, class T, int rows, int pitch>
__device__ void copy_tile(T (&shared)[rows][pitch], const T* matrix, int height, int width, int top,
                          int left) {
  for_each_vector<T, rows, columns>([&](int row, int column) {
    const int y = top + row, x = left + column;
    if (is_whole(matrix, height, width, y, x))
      cp_async_16(&shared[row][column], matrix + y * width + x);
    else
      store(&shared[row][column], vector_at(matrix, height, width, y, x));
  });
}

}  // namespace plangrad::cuda::kernels
