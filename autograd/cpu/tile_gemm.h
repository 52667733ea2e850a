// A matrix product in registers: tiles of 6 rows by 4 vectors, for attention and for builds without
// oneDNN. b and c are row-major, a has any strides. Not here: packing and threads. Chapter 03; Goto
// and van de Geijn 2008, "Anatomy of high-performance matrix multiplication".
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "autograd/dtype.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace plangrad::autograd::cpu {

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

/// Two neighbours of the inner dimension, as wide as one float. An instruction of AVX512-BF16
/// multiplies both and adds both products.
struct Pair {
  bf16 first, second;
};
#if defined(__AVX512BF16__)
inline constexpr bool has_pairs = true;
#else
inline constexpr bool has_pairs = false;
#endif

/// The type of a sum of products of factors F.
template <class F>
using SumOf = std::conditional_t<std::is_same_v<F, Pair>, float, F>;

/// A matrix with element (i, j) at data[i * row + j * column].
template <class F>
struct Strided {
  const F* data;
  std::int64_t row, column;
};

/// sum += factor * row; a vector of pairs has the type of a vector of floats.
template <class V, class F>
void multiply_add(V& sum, F factor, const V& row) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<F, Pair>)
    sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(std::bit_cast<int>(factor)),
                           (__m512bh)row);
  else
#endif
    sum += factor * row;
}

/// c[i,j] (+)= sum_p a[i,p] b[p,j] for Rows rows and Vectors vectors of columns.
template <class F, int Rows, int Vectors, class C = SumOf<F>>
void tile(std::int64_t inner, Strided<F> a, const F* b, std::int64_t ldb, C* c, std::int64_t ldc,
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
      F factor = a.data[i * a.row + p * a.column];
      for (int v = 0; v < Vectors; ++v) multiply_add(sum[i][v], factor, row[v]);
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

template <class F, int Vectors>
void tile_rows(std::int64_t rows, std::int64_t inner, Strided<F> a, const F* b, std::int64_t ldb,
               SumOf<F>* c, std::int64_t ldc, bool add) {
  for (; rows >= 6; rows -= 6, a.data += 6 * a.row, c += 6 * ldc)
    tile<F, 6, Vectors>(inner, a, b, ldb, c, ldc, add);
  if (rows > 0)
    dispatch<1, 5>(static_cast<int>(rows),
                   [&]<int some>() { tile<F, some, Vectors>(inner, a, b, ldb, c, ldc, add); });
}

/// Columns of b and c are padded to this many elements.
template <class C>
inline constexpr std::int64_t column_multiple = 64 / sizeof(C);

/// c = a b, or c += a b.  a (rows,inner), b (inner,columns), c (rows,columns); columns is a
/// multiple of column_multiple, and inner counts pairs if F is Pair.
template <class F>
void tile_gemm(std::int64_t rows, std::int64_t columns, std::int64_t inner, Strided<F> a,
               const F* b, std::int64_t ldb, SumOf<F>* c, std::int64_t ldc, bool add) {
  constexpr std::int64_t lanes = VectorOf<SumOf<F>>::lanes;
  while (columns > 0) {
    std::int64_t vectors = std::min<std::int64_t>(columns / lanes, tile_vectors);
    dispatch<1, tile_vectors>(static_cast<int>(vectors), [&]<int wide>() {
      tile_rows<F, wide>(rows, inner, a, b, ldb, c, ldc, add);
    });
    b += vectors * lanes;
    c += vectors * lanes;
    columns -= vectors * lanes;
  }
}

}  // namespace plangrad::autograd::cpu
