// sum_columns: one pass over rows that also adds up columns, for the gradients of biases and norms.
// Not here: a result that changes with the number of threads. Rows are added in blocks of fixed
// size, and the blocks in order. Chapter 03.
#pragma once

#include <algorithm>
#include <array>

#include "autograd/backend.h"
#include "autograd/cpu/parallel.h"

namespace paragrad::autograd::cpu {

/// Calls row(r, sums...) for each row; it adds to `sums`, one buffer of `width` values for each
/// tensor of `totals`, which receive the sums over all rows.
template <class C, std::size_t N, class Row>
void sum_columns(std::int64_t rows, std::int64_t width, const std::array<Tensor, N>& totals,
                 Row&& row) {
  constexpr std::int64_t block_rows = 64;
  std::int64_t blocks = (rows + block_rows - 1) / block_rows, n = N;
  Tensor partial = workspace({blocks, n, width}, DTypeOf<C>::value, totals[0].device());
  C* sums = partial.data<C>();
  parallel_each(blocks, block_rows * width, [&](std::int64_t block) {
    C* mine = sums + block * n * width;
    std::fill(mine, mine + n * width, C(0));
    std::int64_t end = std::min(rows, (block + 1) * block_rows);
    for (std::int64_t r = block * block_rows; r < end; ++r) {
      if constexpr (N == 1)
        row(r, mine);
      else
        row(r, mine, mine + width);
    }
  });
  for (std::size_t i = 0; i < N; ++i) {
    C* total = totals[i].template data<C>();
    std::fill(total, total + width, C(0));
    for (std::int64_t block = 0; block < blocks; ++block) {
      const C* part = sums + (block * n + static_cast<std::int64_t>(i)) * width;
      for (std::int64_t c = 0; c < width; ++c) total[c] += part[c];
    }
  }
}

}  // namespace paragrad::autograd::cpu
