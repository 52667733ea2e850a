// A dense matrix in panels of a few vectors side by side, so that each row that a sparse matrix
// picks lies in whole registers, and a panel lies in the second-level cache.
// Not here: the sparse matrix (autograd/cpu/sparse_matmul.cpp). Gale et al. 2020.
#pragma once

#include "autograd/cpu/tile_gemm.h"

namespace plangrad::autograd::cpu {

template <class T>
using Register = typename VectorOf<Compute<T>>::type;
template <class T>
inline constexpr int lanes = VectorOf<Compute<T>>::lanes;
/// The number of values in a panel's row of `Registers` registers.
template <class T, int Registers>
inline constexpr std::int64_t panel_width = Registers* lanes<T>;

/// Reads two registers of a panel's row. In bf16, each word holds one value of the first register
/// and one of the second, which a shift and a mask widen to floats.
template <class T>
void load_pair(const T* row, int pair, Register<T>& first, Register<T>& second) {
  row += 2 * lanes<T> * pair;
  if constexpr (std::is_same_v<T, bf16>) {
    typedef std::uint32_t Words __attribute__((vector_size(vector_bytes)));
    Words words;
    std::memcpy(&words, row, sizeof words);
    first = std::bit_cast<Register<T>>(words << 16);
    second = std::bit_cast<Register<T>>(words & 0xffff0000u);
  } else {
    std::memcpy(&first, row, sizeof first);
    std::memcpy(&second, row + lanes<T>, sizeof second);
  }
}

/// Writes two registers to a panel's row, whose values T can hold: the inverse of the read.
template <class T>
void store_pair(T* row, int pair, Register<T> first, Register<T> second) {
  row += 2 * lanes<T> * pair;
  if constexpr (std::is_same_v<T, bf16>) {
    typedef std::uint32_t Words __attribute__((vector_size(vector_bytes)));
    Words words = std::bit_cast<Words>(first) >> 16 | (std::bit_cast<Words>(second) & 0xffff0000u);
    std::memcpy(static_cast<void*>(row), &words, sizeof words);
  } else {
    std::memcpy(row, &first, sizeof first);
    std::memcpy(row + lanes<T>, &second, sizeof second);
  }
}

/// Exchanges the upper right and the lower left quarter of every block of 2 Step rows and lanes.
template <int Step, class V, std::size_t... Lane>
void exchange(V& upper, V& lower, std::index_sequence<Lane...>) {
  constexpr int n = sizeof...(Lane);
  V a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, (Lane & Step ? n + Lane - Step : Lane)...);
  lower = __builtin_shufflevector(a, b, (Lane & Step ? n + Lane : Lane + Step)...);
}

/// Transposes a square of as many registers as they have lanes.
template <int Step, class V>
void transpose(V* rows) {
  constexpr int n = sizeof(V) / sizeof(rows[0][0]);
  for (int i = 0; i < n; ++i)
    if (!(i & Step)) exchange<Step>(rows[i], rows[i + Step], std::make_index_sequence<n>());
  if constexpr (Step > 1) transpose<Step / 2>(rows);
}

/// Value k of vector n, for vectors that are the rows of a matrix.
template <class T>
struct Dense {
  T* data;
  std::int64_t length;

  explicit Dense(const Tensor& x) : data(x.data<T>()), length(x.size(1)) {}
  T* at(std::int64_t k, std::int64_t n) const { return data + k + n * length; }
};

/// A block of as many panel rows as a register has lanes. Register i of row r: data[i * lanes + r].
template <class T, int Registers>
struct Block {
  using C = Compute<T>;
  Register<T> data[panel_width<T, Registers>];

  /// Reads rows [k, k + rows) of vectors [n, n + width) into the block; the rest becomes zero.
  void read(const Dense<T>& x, std::int64_t k, std::int64_t rows, std::int64_t n,
            std::int64_t width) {
    for (std::int64_t j = 0; j < panel_width<T, Registers>; ++j) {
      C line[lanes<T>] = {};
      if (j < width) widen(x.at(k, n + j), rows, line);
      std::memcpy(&data[j], line, sizeof line);
    }
    turn();
  }

  /// Writes the block to the places that read() reads, rounded to their type; overwrites the block.
  void write(const Dense<T>& x, std::int64_t k, std::int64_t rows, std::int64_t n,
             std::int64_t width) {
    turn();
    for (std::int64_t j = 0; j < width; ++j) {
      C line[lanes<T>];
      std::memcpy(line, &data[j], sizeof line);
      round(line, rows, x.at(k, n + j));
    }
  }

 private:
  /// Transposes the block: from data[j] holding a part of vector j to the order above, and back.
  void turn() {
    for (int i = 0; i < Registers; ++i) transpose<lanes<T> / 2>(data + i * lanes<T>);
  }
  // Copies at most a register's lanes; for a whole register, the compiler knows the loop's length.
  static void widen(const T* from, std::int64_t count, C* to) {
    if (count == lanes<T>)
      std::copy_n(from, lanes<T>, to);
    else
      std::copy_n(from, count, to);
  }
  static void round(const C* from, std::int64_t count, T* to) {
    if (count < lanes<T>) {
      std::copy_n(from, count, to);
      return;
    }
#pragma omp simd
    for (int l = 0; l < lanes<T>; ++l) to[l] = from[l];
  }
};

/// All panels of a matrix, stored one after the other.                (panels, rows, panel_width)
template <class T, int Registers>
Tensor pack(const Tensor& x) {
  constexpr std::int64_t width = panel_width<T, Registers>, height = lanes<T>;
  Dense<T> dense(x);
  std::int64_t rows = x.size(1), n = x.size(0);
  std::int64_t panels = (n + width - 1) / width, blocks = (rows + height - 1) / height;
  Tensor packed = workspace({panels, rows, width}, x.dtype(), x.device());
  T* data = packed.data<T>();
  parallel_each(panels * blocks, height * width, [=](std::int64_t b) {
    Block<T, Registers> block;
    std::int64_t j = b / blocks * width, k = b % blocks * height;
    std::int64_t filled = std::min(height, rows - k);
    block.read(dense, k, filled, j, std::min(width, n - j));
    for (std::int64_t r = 0; r < filled; ++r)
      for (int pair = 0; pair < Registers / 2; ++pair)
        store_pair(data + j * rows + (k + r) * width, pair, block.data[2 * pair * height + r],
                   block.data[(2 * pair + 1) * height + r]);
  });
  return packed;
}

}  // namespace plangrad::autograd::cpu
