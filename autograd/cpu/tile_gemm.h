// A matrix product in registers: tiles of 6 rows by 4 vectors, for attention and for builds without
// oneDNN. b and c are row-major, a has any strides. Not here: packing and threads. Chapter 03; Goto
// and van de Geijn 2008, "Anatomy of high-performance matrix multiplication".
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "autograd/dtype.h"

namespace paragrad::autograd::cpu {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif
/// The number of vectors in a tile's row, so that the registers hold all accumulators.
inline constexpr int tile_vectors = vector_bytes == 64 ? 4 : 2;

template <class C>
struct VectorOf {
  typedef C type __attribute__((vector_size(vector_bytes)));
  static constexpr int lanes = vector_bytes / sizeof(C);
};

/// A matrix with element (i, j) at data[i * row + j * column].
template <class C>
struct Strided {
  const C* data;
  std::int64_t row, column;
};

/// c[i,j] (+)= sum_p a[i,p] b[p,j] for Rows rows and Vectors vectors of columns.
template <class C, int Rows, int Vectors>
void tile(std::int64_t inner, Strided<C> a, const C* b, std::int64_t ldb, C* c, std::int64_t ldc,
          bool add) {
  using V = typename VectorOf<C>::type;
  constexpr int lanes = VectorOf<C>::lanes;
  V sum[Rows][Vectors];
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) sum[i][v] = V{};  // "= {}" would keep them in memory
  for (std::int64_t p = 0; p < inner; ++p) {
    V row[Vectors];
    for (int v = 0; v < Vectors; ++v) std::memcpy(&row[v], b + p * ldb + v * lanes, sizeof(V));
    for (int i = 0; i < Rows; ++i) {
      C factor = a.data[i * a.row + p * a.column];
      for (int v = 0; v < Vectors; ++v) sum[i][v] += factor * row[v];
    }
  }
  if (add)
    for (int i = 0; i < Rows; ++i)
      for (int v = 0; v < Vectors; ++v) {
        V before;
        std::memcpy(&before, c + i * ldc + v * lanes, sizeof(V));
        sum[i][v] += before;
      }
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) std::memcpy(c + i * ldc + v * lanes, &sum[i][v], sizeof(V));
}

template <class C, int Vectors>
void tile_rows(std::int64_t rows, std::int64_t inner, Strided<C> a, const C* b, std::int64_t ldb,
               C* c, std::int64_t ldc, bool add) {
  for (; rows >= 6; rows -= 6, a.data += 6 * a.row, c += 6 * ldc)
    tile<C, 6, Vectors>(inner, a, b, ldb, c, ldc, add);
  if (rows > 0)
    dispatch<1, 5>(static_cast<int>(rows),
                   [&]<int some>() { tile<C, some, Vectors>(inner, a, b, ldb, c, ldc, add); });
}

/// Columns of b and c are padded to this many elements.
template <class C>
inline constexpr std::int64_t column_multiple = 64 / sizeof(C);

/// c = a b, or c += a b.  a (rows,inner), b (inner,columns), c (rows,columns); columns is a
/// multiple of column_multiple.
template <class C>
void tile_gemm(std::int64_t rows, std::int64_t columns, std::int64_t inner, Strided<C> a,
               const C* b, std::int64_t ldb, C* c, std::int64_t ldc, bool add) {
  constexpr std::int64_t lanes = VectorOf<C>::lanes;
  while (columns > 0) {
    std::int64_t vectors = std::min<std::int64_t>(columns / lanes, tile_vectors);
    dispatch<1, tile_vectors>(static_cast<int>(vectors), [&]<int wide>() {
      tile_rows<C, wide>(rows, inner, a, b, ldb, c, ldc, add);
    });
    b += vectors * lanes;
    c += vectors * lanes;
    columns -= vectors * lanes;
  }
}

}  // namespace paragrad::autograd::cpu
