// Matrix products: oneDNN's where it is there, else a blocked loop over register tiles.
// Not here: attention's small products (autograd/cpu/attention.cpp).
// Chapter 03.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/onednn.h"
#include "autograd/cpu/parallel.h"
#include "autograd/cpu/tile_gemm.h"

namespace paragrad::autograd {

namespace {

using cpu::Strided;

/// One product, c = a b + bias, or c += a b + bias, with c (m,n).
template <class T, class U>
struct Product {
  std::int64_t m, n, k;
  Strided<T> a, b;
  const T* bias;
  U* c;
  bool add;
};

/// Rows [first, last) of one product. Blocks of b are copied to a buffer of padded rows, and their
/// product with a block of a's rows is added up in another.
template <class T, class U>
void blocked_rows(const Product<T, U>& p, std::int64_t first, std::int64_t last) {
  using C = Compute<T>;
  constexpr std::int64_t multiple = cpu::column_multiple<C>;
  std::int64_t width = std::min<std::int64_t>(128, (p.n + multiple - 1) / multiple * multiple);
  std::int64_t height = std::min<std::int64_t>(96, last - first);
  std::int64_t depth = std::min<std::int64_t>(256, p.k);
  std::vector<C> pack_a(height * depth), pack_b(depth * width), sum(height * width);
  for (std::int64_t j = 0; j < p.n; j += width) {
    std::int64_t n = std::min(width, p.n - j);
    for (std::int64_t i = first; i < last; i += height) {
      std::int64_t m = std::min(height, last - i);
      std::fill(sum.begin(), sum.end(), C(0));
      for (std::int64_t l = 0; l < p.k; l += depth) {
        std::int64_t k = std::min(depth, p.k - l);
        for (std::int64_t r = 0; r < k; ++r)
          for (std::int64_t s = 0; s < width; ++s)
            pack_b[r * width + s] =
                s < n ? C(p.b.data[(l + r) * p.b.row + (j + s) * p.b.column]) : C(0);
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t s = 0; s < k; ++s)
            pack_a[r * depth + s] = C(p.a.data[(i + r) * p.a.row + (l + s) * p.a.column]);
        cpu::tile_gemm<C>(m, width, k, {pack_a.data(), depth, 1}, pack_b.data(), width, sum.data(),
                          width, true);
      }
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t s = 0; s < n; ++s) {
          U& out = p.c[(i + r) * p.n + j + s];
          C value = sum[r * width + s];
          if (p.add) value += static_cast<C>(out);
          if (p.bias) value += C(p.bias[j + s]);
          out = static_cast<U>(value);
        }
    }
  }
}

template <class T, class U>
void blocked(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
             const Tensor& c) {
  std::int64_t m = c.size(1), n = c.size(2), k = a.size(how.transpose_a ? 1 : 2);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    Strided<T> x{a.data<T>() + i * m * k, how.transpose_a ? 1 : k, how.transpose_a ? m : 1};
    Strided<T> y{b.data<T>() + i * k * n, how.transpose_b ? 1 : n, how.transpose_b ? k : 1};
    Product<T, U> product{
        m, n, k, x, y, bias.defined() ? bias.data<T>() : nullptr, c.data<U>() + i * m * n, how.add};
    // Six rows at a time, so that where threads cut does not change a tile.
    cpu::parallel_for((m + 5) / 6, 65536 / (6 * n * k + 1) + 1,
                      [&](std::int64_t first, std::int64_t last) {
                        blocked_rows(product, 6 * first, std::min(6 * last, m));
                      });
  }
}

}  // namespace

void CpuBackend::gemm(Gemm how, In a, In b, In bias, Out c) {
  if (c.numel() == 0) return;
  if (cpu::onednn_gemm(how, a, b, bias, c)) return;
  dispatch(a.dtype(), [&]<class T>() {
    if (c.dtype() == a.dtype()) return blocked<T, T>(how, a, b, bias, c);
    PG_CHECK(a.dtype() == DType::bf16 && c.dtype() == DType::f32, "gemm: from ", a, " to ", c);
    if constexpr (std::is_same_v<T, bf16>) blocked<bf16, float>(how, a, b, bias, c);
  });
}

}  // namespace paragrad::autograd
