// Matrix products in registers: tiles of 6 rows by 4 vectors, for attention; and over blocks, for
// builds without oneDNN: each factor is read from a copy that lies in the cache in the order in
// which a tile reads it. An element of that result is the sum over k in blocks of fixed depth,
// however many threads there are. Not here: oneDNN's products (gemm.cpp).
// Chapter 03; Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication".
#pragma once

#include <cstring>

#include "autograd/cpu/parallel.h"

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

/// c = a b + bias, or c += a b + bias; bias may be null.   a (m,k), b (k,n), bias (n), c (m,n)
template <class T, class U>
struct PackedGemm {
  using C = Compute<T>;
  /// Rows and columns of a tile, hence of the panels to which a and b are packed.
  static constexpr std::int64_t height = 6, width = tile_vectors * VectorOf<C>::lanes;

  std::int64_t m, n, k;
  Strided<T> a, b;
  const T* bias;
  U* c;
  bool add;
  C *rows_of_a = nullptr, *panels_of_b = nullptr;  ///< packed

  void run(const DevicePtr& device) {
    Tensor x, y = pack<width>({b.data, b.column, b.row}, n, device);
    panels_of_b = y.data<C>();
    if (a.column != 1) {
      x = pack<height>(a, m, device);
      rows_of_a = x.data<C>();
    }
    const std::int64_t down = (m + tall - 1) / tall, across = (n + wide - 1) / wide;
    parallel_each(down * across, tall * k * std::min(n, wide) / 16,
                  [=, this](std::int64_t i) { block(i % down * tall, i / down * wide); });
  }

 private:
  // A panel of b is as wide as a tile and stays in the first-level cache for a block of rows of a,
  // which stays in the second level, like the block of c.
  static constexpr std::int64_t tall = 96, wide = 1024 / sizeof(C), deep = 384;

  /// Copies a matrix (lines,k), widened, to panels of `size` lines, in which the values of one k
  /// lie side by side; zeros fill up the last panel.                           (panels,k,size)
  template <std::int64_t size>
  Tensor pack(Strided<T> x, std::int64_t lines, const DevicePtr& device) const {
    const std::int64_t all = (lines + size - 1) / size;
    Tensor packed = workspace({all, k, size}, DTypeOf<C>::value, device);
    parallel_each(all, k * size, [=, this, to = packed.data<C>()](std::int64_t i) {
      pack_panel<size>({x.data + i * size * x.row, x.row, x.column}, lines - i * size,
                       to + i * size * k);
    });
    return packed;
  }
  template <std::int64_t size>
  void pack_panel(Strided<T> x, std::int64_t lines, C* to) const {
    if (lines < size) {
      std::fill(to, to + k * size, C(0));
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t s = 0; s < lines; ++s)
          to[p * size + s] = C(x.data[s * x.row + p * x.column]);
    } else if (x.row == 1) {  // the compiler knows the inner loop's length
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t s = 0; s < size; ++s) to[p * size + s] = C(x.data[p * x.column + s]);
    } else {
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t s = 0; s < size; ++s)
          to[p * size + s] = C(x.data[s * x.row + p * x.column]);
    }
  }

  /// A part of a as tiles read it: six rows, and how far it is to the next six.
  struct Rows {
    Strided<C> first;
    std::int64_t next;
  };

  /// Returns a part (rows,depth) of a: packed already, or copied, widened, to `copy`.
  Rows part(std::int64_t i, std::int64_t rows, std::int64_t from, std::int64_t depth,
            C* copy) const {
    if (rows_of_a) return {{rows_of_a + i * k + height * from, 1, height}, height * k};
    const T* first = a.data + i * a.row + from;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t p = 0; p < depth; ++p) copy[r * deep + p] = C(first[r * a.row + p]);
    return {{copy, deep, 1}, height * deep};
  }

  /// Computes the block of c that begins at (i,j).
  void block(std::int64_t i, std::int64_t j) const {
    alignas(64) C sums[tall * wide], copy[tall * deep];
    const std::int64_t rows = std::min(tall, m - i), columns = std::min(wide, n - j);
    const std::int64_t parts = std::max<std::int64_t>((k + deep - 1) / deep, 1);
    for (std::int64_t l = 0; l < parts; ++l) {
      const std::int64_t from = k * l / parts, depth = k * (l + 1) / parts - from;
      const Rows left = part(i, rows, from, depth, copy);
      for (std::int64_t s = 0; s < columns; s += width)
        for (std::int64_t r = 0; r < rows; r += height) {
          Strided<C> six = left.first;
          six.data += r / height * left.next;
          tile_rows<C, tile_vectors>(std::min(height, rows - r), depth, six,
                                     panels_of_b + (j + s) * k + from * width, width,
                                     sums + r * wide + s, wide, l > 0);
        }
    }
    for (std::int64_t r = 0; r < rows; ++r)
      finish(sums + r * wide, c + (i + r) * n + j, j, columns);
  }

  /// Writes a row of sums to c, with what is added to them.
  void finish(const C* sums, U* to, std::int64_t j, std::int64_t columns) const {
    for (std::int64_t s = 0; s < columns; ++s) {
      C value = sums[s];
      if (add) value += C(to[s]);
      if (bias) value += C(bias[j + s]);
      to[s] = value;
    }
  }
};

}  // namespace plangrad::autograd::cpu
