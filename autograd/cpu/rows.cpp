// Kernels that work row by row: softmax, layer norm, cross-entropy, embedding.
// Not here: attention's softmax, which is never in memory as a whole. Chapters 02 and 03.
#include "autograd/cpu/parallel.h"
#include "autograd/cpu/vector_math.h"

namespace plangrad::autograd {
namespace {

using cpu::RowsOf;

/// max_c row[c]. A NaN is returned only if it comes first; the sums that follow show the others.
template <class C, class T>
C row_max(const T* row, std::int64_t width) {
  C top = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : top)
  for (std::int64_t c = 0; c < width; ++c) top = std::max(top, C(row[c]));
  return top;
}

/// sum_c exp(row[c] - top)
template <class C, class T>
C exp_sum(const T* row, C top, std::int64_t width) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += cpu::vector_exp(C(row[c]) - top);
  return sum;
}

}  // namespace

void CpuBackend::softmax(In x, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> in(x), out(y);
    in.for_each([=, width = in.width](std::int64_t r) {
      const T* row = in[r];
      T* to = out[r];
      C top = row_max<C>(row, width), scale = 1 / exp_sum(row, top, width);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) to[c] = cpu::vector_exp(C(row[c]) - top) * scale;
    });
  });
}

void CpuBackend::softmax_backward(In y, In dy, Out dx) {
  dispatch(y.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> out(y), d(dy), result(dx);
    out.for_each([=, width = out.width](std::int64_t r) {
      const T *p = out[r], *g = d[r];
      T* to = result[r];
      C dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t c = 0; c < width; ++c) dot += C(p[c]) * C(g[c]);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) to[c] = C(p[c]) * (C(g[c]) - dot);
    });
  });
}

void CpuBackend::layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y,
                            Out mean, Out inverse) {
  if (a.defined()) {
    binary(Binary::add, x, a, sum);
    return layer_norm(sum, {}, weight, bias, epsilon, {}, y, mean, inverse);
  }
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> in(x), out(y);
    const T *w = weight.data<T>(), *b = bias.data<T>();
    C *m = mean.data<C>(), *s = inverse.data<C>();
    in.for_each([=, width = in.width](std::int64_t r) {
      const T* row = in[r];
      T* to = out[r];
      C sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < width; ++c) sum += C(row[c]);
      C average = sum / width;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < width; ++c)
        squares += (C(row[c]) - average) * (C(row[c]) - average);
      C scale = 1 / std::sqrt(squares / width + static_cast<C>(epsilon));
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        to[c] = (C(row[c]) - average) * scale * C(w[c]) + C(b[c]);
      m[r] = average;
      s[r] = scale;
    });
  });
}

void CpuBackend::layer_norm_backward(In x, In weight, In mean, In inverse, In dy, In so_far, Out dx,
                                     Out dweight, Out dbias) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> in(x), d(dy), out(dx);
    const C *m = mean.data<C>(), *s = inverse.data<C>();
    auto run = [=, weights = weight.data<T>(), width = in.width](std::int64_t r, C* dw) {
      // A local copy of the pointer: dw could change the captured one, and no vector code would do.
      const T *row = in[r], *g = d[r], *w = weights;
      T* to = out[r];
      C *db = dw + width, average = m[r], scale = s[r], sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
      for (std::int64_t c = 0; c < width; ++c) {
        C n = (C(row[c]) - average) * scale, dn = C(g[c]) * C(w[c]);
        sum += dn;
        dot += dn * n;
        dw[c] += C(g[c]) * n;
        db[c] += C(g[c]);
      }
      sum /= width;
      dot /= width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        C n = (C(row[c]) - average) * scale, dn = C(g[c]) * C(w[c]);
        to[c] = (dn - sum - n * dot) * scale;
      }
    };
    cpu::sum_columns<C>(in.count, in.width, {dweight, dbias}, run);
  });
  if (so_far.defined()) accumulate(so_far, dx);
}

/// Checks ids before threads start: an exception must not leave a parallel loop.
static void check_ids(const char* what, const Tensor& ids, std::int64_t limit) {
  if (cpu::without_values) return;
  const std::int32_t* id = ids.data<std::int32_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    PG_CHECK(id[i] >= 0 && id[i] < limit, what, " ", id[i], " is outside [0,", limit, ")");
}

void CpuBackend::cross_entropy(In logits, In targets, std::int64_t classes, double scale, Out loss,
                               Out dlogits) {
  check_ids("cross_entropy: target", targets, classes);
  dispatch(logits.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> in(logits), out(dlogits.defined() ? dlogits : logits);
    const std::int32_t* target = targets.data<std::int32_t>();
    C* l = loss.data<C>();
    in.for_each([=, d = static_cast<C>(scale), wanted = dlogits.defined()](std::int64_t r) {
      const T* row = in[r];
      const C top = row_max<C>(row, classes), chosen = row[target[r]];
      const C normalizer = top + std::log(exp_sum(row, top, classes));
      l[r] = normalizer - chosen;
      if (!wanted) return;
      T* to = out[r];
#pragma omp simd
      for (std::int64_t c = 0; c < classes; ++c)
        to[c] = d * cpu::vector_exp(C(row[c]) - normalizer);
      to[target[r]] = d * (cpu::vector_exp(chosen - normalizer) - 1);
      std::fill(to + classes, to + out.width, T(0));
    });
  });
}

void CpuBackend::embedding(In table, In ids, Out y) {
  check_ids("embedding: id", ids, table.size(0));
  const std::int32_t* id = ids.data<std::int32_t>();
  std::int64_t bytes = table.size(1) * size_of(table.dtype());
  cpu::parallel_each(ids.numel(), 4 * table.size(1), [=](std::int64_t r) {
    std::copy_n(table.raw() + id[r] * bytes, bytes, y.raw() + r * bytes);
  });
}

void CpuBackend::embedding_backward(In ids, In dy, Out dtable) {
  fill(0, dtable);
  dispatch(dy.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const RowsOf<T> d(dy);
    const RowsOf<C> table(dtable);
    const std::int32_t* id = ids.data<std::int32_t>();
    // Divide columns among threads, so that each row's sum keeps its order.
    cpu::parallel_for(d.width, cpu::element_grain / d.count + 1,
                      [=](std::int64_t first, std::int64_t last) {
                        for (std::int64_t r = 0; r < d.count; ++r) {
                          const T* row = d[r];
                          C* sum = table[id[r]];
#pragma omp simd
                          for (std::int64_t c = first; c < last; ++c) sum[c] += C(row[c]);
                        }
                      });
  });
}

}  // namespace plangrad::autograd
