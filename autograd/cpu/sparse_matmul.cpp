// Products with sparse matrices. Each element of a sparse row picks a row of a panel: every
// multiply-add loads a register, mostly from the second cache, where a dense product reuses it.
// Not here: rows sorted by length, as on the GPU; the CPU was slower that way.
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#include <ranges>

#include "autograd/cpu/panel.h"

namespace plangrad::autograd {
namespace {

using cpu::Dense;
using cpu::lanes;
using cpu::panel_width;
using cpu::Register;

/// Numbers of accumulators, which must fit into the processor's registers beside the loaded values.
constexpr int spmm_registers = cpu::vector_bytes == 64 ? 4 : 8, sddmm_registers = 8;

/// A pattern's elements as rows: the column of each element.
struct Rows {
  const std::int32_t *offsets, *columns;

  explicit Rows(const SparsePattern& pattern)
      : offsets(pattern.offsets.data<std::int32_t>()),
        columns(pattern.columns.data<std::int32_t>()) {}
  std::int64_t length(std::int64_t r) const { return offsets[r + 1] - offsets[r]; }
};

/// Calls body(panel, first, last) on rows [first, last) of every panel. Threads get equal shares of
/// the cost of elements and rows; empty rows have a cost, too. Shares consist of whole blocks.
template <class Body>
void share_rows(const SparsePattern& pattern, std::int64_t panels, std::int64_t block,
                std::int64_t grain, Body&& body) {
  std::int64_t rows = pattern.rows(), total = pattern.elements() + rows;
  const std::int32_t* offsets = Rows(pattern).offsets;
  auto blocks = std::views::iota(std::int64_t{0}, (rows + block - 1) / block);
  auto cost_before = [=](std::int64_t b) { return offsets[b * block] + b * block; };
  auto row_at = [=](std::int64_t share) {
    auto found = std::ranges::lower_bound(blocks, share, {}, cost_before);
    return std::min(static_cast<std::int64_t>(found - blocks.begin()) * block, rows);
  };
  cpu::parallel_for(panels * total, grain, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first / total; panel * total < last; ++panel)
      body(panel, row_at(first - panel * total), row_at(last - panel * total));
  });
}

/// sums = start + sum_i values[i] panel[columns[i]], one element after the other. `pitch` is the
/// distance between the registers of `sums`.
template <class T>
void sum_row(const std::int32_t* columns, const T* values, std::int64_t count, const T* panel,
             Compute<T> start, Register<T>* sums, std::int64_t pitch) {
  Register<T> sum[spmm_registers], first, second;
  for (Register<T>& s : sum) s = Register<T>{} + start;
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = panel + columns[i] * panel_width<T, spmm_registers>;
    Compute<T> factor = values[i];
    for (int pair = 0; pair < spmm_registers / 2; ++pair) {
      cpu::load_pair(row, pair, first, second);
      sum[2 * pair] += factor * first;
      sum[2 * pair + 1] += factor * second;
    }
  }
  for (int i = 0; i < spmm_registers; ++i) sums[i * pitch] = sum[i];
}

template <class T>
void multiply(const SparsePattern& pattern, const T* values, const Tensor& b, const Tensor& bias,
              const Tensor& c) {
  constexpr std::int64_t height = lanes<T>, wide = panel_width<T, spmm_registers>;
  Tensor packed = cpu::pack<T, spmm_registers>(b);
  const T *panels = packed.data<T>(), *start = bias.defined() ? bias.data<T>() : nullptr;
  std::int64_t n = c.numel() / pattern.rows(), inner = pattern.width;
  Rows rows(pattern);
  Dense<T> dense(c);
  auto run = [=](std::int64_t panel, std::int64_t first, std::int64_t last) {
    cpu::Block<T, spmm_registers> block;
    for (std::int64_t m = first; m < last; m += height) {
      std::int64_t some = std::min(height, last - m), j = panel * wide;
      for (std::int64_t r = m; r < m + some; ++r)
        sum_row(rows.columns + rows.offsets[r], values + rows.offsets[r], rows.length(r),
                panels + j * inner, start ? Compute<T>(start[r]) : 0, block.data + r - m, height);
      block.write(dense, m, some, j, std::min(wide, n - j));
    }
  };
  share_rows(pattern, packed.size(0), height, cpu::element_grain / wide, run);
}

/// Adds a register's upper half to its lower one, until one lane is left.
template <class V, std::size_t... Lane>
auto sum_lanes(V v, std::index_sequence<Lane...>) {
  constexpr std::size_t half = sizeof...(Lane);
  auto sum = __builtin_shufflevector(v, v, Lane...) + __builtin_shufflevector(v, v, half + Lane...);
  if constexpr (half == 1)
    return sum[0];
  else
    return sum_lanes(sum, std::make_index_sequence<half / 2>());
}

/// sums[i] += the dot product of row d of one panel and row columns[i] of another.
template <class T>
void sample_row(const std::int32_t* columns, std::int64_t count, const T* d, const T* panel,
                Compute<T>* sums) {
  Register<T> left[sddmm_registers], first, second;
  for (int pair = 0; pair < sddmm_registers / 2; ++pair)
    cpu::load_pair(d, pair, left[2 * pair], left[2 * pair + 1]);
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = panel + columns[i] * panel_width<T, sddmm_registers>;
    Register<T> even = {}, odd = {};
    for (int pair = 0; pair < sddmm_registers / 2; ++pair) {
      cpu::load_pair(row, pair, first, second);
      even += left[2 * pair] * first;
      odd += left[2 * pair + 1] * second;
    }
    sums[i] += sum_lanes(even + odd, std::make_index_sequence<lanes<T> / 2>());
  }
}

template <class T>
void sample(const SparsePattern& pattern, const Tensor& d, const Tensor& b, const Tensor& values) {
  constexpr std::int64_t wide = panel_width<T, sddmm_registers>;
  Tensor packed_d = cpu::pack<T, sddmm_registers>(d);
  Tensor packed_b = cpu::pack<T, sddmm_registers>(b);
  const T *left = packed_d.data<T>(), *right = packed_b.data<T>();
  std::int64_t m = pattern.rows(), inner = pattern.width, end = packed_d.size(0) * wide;
  Rows rows(pattern);
  Compute<T>* sums = values.data<Compute<T>>();
  auto run = [=](std::int64_t, std::int64_t first, std::int64_t last) {
    for (std::int64_t j = 0; j < end; j += wide)
      for (std::int64_t r = first; r < last; ++r)
        sample_row(rows.columns + rows.offsets[r], rows.length(r), left + j * m + r * wide,
                   right + j * inner, sums + rows.offsets[r]);
  };
  share_rows(pattern, 1, 1, cpu::element_grain / std::max(end, wide) + 1, run);
}

}  // namespace

void CpuBackend::spmm(const SparsePattern& pattern, In values, In b, In bias, Out c) {
  if (c.numel() == 0) return;
  dispatch(b.dtype(), [&]<class T>() {
    const T* given = values.data<T>();
    if (!pattern.source.defined()) return multiply(pattern, given, b, bias, c);
    Tensor ordered = workspace(values.shape(), values.dtype(), values.device());
    const std::int32_t* source = pattern.source.data<std::int32_t>();
    T* to = ordered.data<T>();
    cpu::parallel_each(values.numel(), 4, [=](std::int64_t i) { to[i] = given[source[i]]; });
    multiply(pattern, to, b, bias, c);
  });
}

void CpuBackend::sddmm(const SparsePattern& pattern, In d, In b, Out values) {
  fill(0, values);
  if (d.numel() == 0) return;
  dispatch(d.dtype(), [&]<class T>() { sample<T>(pattern, d, b, values); });
}

}  // namespace plangrad::autograd
