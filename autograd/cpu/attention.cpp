// Causal attention, head by head, a block of queries at a time.
// Not here: a T x T matrix. A thread holds scores for one block of queries only.
// Chapter 02; Dao et al. 2022, "FlashAttention", sections 3.1 and B.4.
#include <limits>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"
#include "autograd/cpu/tile_gemm.h"
#include "autograd/cpu/vector_math.h"

namespace paragrad::autograd {

namespace {

constexpr std::int64_t block_rows = 48;  // queries at a time: eight tiles of six

std::int64_t padded(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Sizes of one head's work, and the places of its values in (B,T,width).
template <class T>
struct Head {
  std::int64_t time, size;  ///< T and d
  std::int64_t pitch;       ///< elements from one position's values to the next position's
  std::int64_t ptime = padded(time, cpu::column_multiple<Compute<T>>);  ///< padded for tiles
  std::int64_t psize = padded(size, cpu::column_multiple<Compute<T>>);
  Compute<T> scale = Compute<T>(1 / std::sqrt(static_cast<double>(size)));

  /// The cost of a head, in elements of an element-wise loop.
  std::int64_t work() const { return time * time * size / 16; }

  /// Copies a head's values to rows of `psize`, widened, padded with zeros.     (T,d) -> (T,psize)
  void load(const T* from, std::int64_t from_pitch, Compute<T>* to) const {
    for (std::int64_t t = 0; t < time; ++t) {
      const T* row = from + t * from_pitch;
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) to[t * psize + c] = row[c];
      std::fill(to + t * psize + size, to + (t + 1) * psize, Compute<T>(0));
    }
  }
  /// Transposes rows made by load().                                     (T,psize) -> (psize,ptime)
  void transpose(const Compute<T>* from, Compute<T>* to) const {
    for (std::int64_t c = 0; c < size; ++c)
      for (std::int64_t t = 0; t < ptime; ++t)
        to[c * ptime + t] = t < time ? from[t * psize + c] : Compute<T>(0);
  }
  void store(const Compute<T>* from, Compute<T> factor, T* to, std::int64_t to_pitch) const {
    for (std::int64_t t = 0; t < time; ++t)
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) to[t * to_pitch + c] = factor * from[t * psize + c];
  }
};

/// Memory for the scratch buffers of threads, metered as workspace.
template <class C>
struct Scratch {
  Tensor values;
  std::int64_t each;

  Scratch(std::int64_t each, const DevicePtr& device) : each(each) {
    values = workspace({compute_threads(), each}, DTypeOf<C>::value, device);
  }
  C* mine() const { return values.data<C>() + cpu::thread_place() * each; }
};

/// Computes the scores of queries [first, first + rows) against keys [0, columns).
template <class T>
void scores(const Head<T>& h, const Compute<T>* q, const Compute<T>* k_transposed,
            std::int64_t first, std::int64_t rows, std::int64_t columns, Compute<T>* s) {
  cpu::tile_gemm<Compute<T>>(rows, columns, h.size, {q + first * h.psize, h.psize, 1}, k_transposed,
                             h.ptime, s, h.ptime, false);
}

/// Makes a row of scores causal: -inf, which exp turns into 0, after the last visible key up to the
/// end of that key's vector, and 0 from there on. Returns the end of that vector.
template <class C>
std::int64_t hide_later(C* row, std::int64_t seen, std::int64_t keys) {
  std::int64_t end = padded(seen, cpu::column_multiple<C>);
  std::fill(row + seen, row + end, -std::numeric_limits<C>::infinity());
  std::fill(row + std::min(end, keys), row + keys, C(0));
  return end;
}

template <class T>
void attend(const Head<T>& h, const T* qkv, std::int64_t width, Compute<T>* scratch, T* y,
            Compute<T>* normalizer) {
  using C = Compute<T>;
  C *q = scratch, *k = q + h.time * h.psize, *v = k + h.time * h.psize;
  C *kt = v + h.time * h.psize, *s = kt + h.psize * h.ptime, *o = k;  // k is free once transposed
  h.load(qkv, h.pitch, q);
  h.load(qkv + width, h.pitch, k);
  h.load(qkv + 2 * width, h.pitch, v);
  h.transpose(k, kt);
  for (std::int64_t first = 0; first < h.time; first += block_rows) {
    std::int64_t rows = std::min(block_rows, h.time - first), keys = first + rows;
    scores(h, q, kt, first, rows, padded(keys, cpu::column_multiple<C>), s);
    for (std::int64_t r = 0; r < rows; ++r) {
      C* row = s + r * h.ptime;
      std::int64_t end = hide_later(row, first + r + 1, keys);
      C top = -std::numeric_limits<C>::infinity(), sum = 0;
#pragma omp simd reduction(max : top)
      for (std::int64_t c = 0; c < end; ++c) top = std::max(top, row[c]);
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < end; ++c) {
        row[c] = cpu::vector_exp(h.scale * (row[c] - top));
        sum += row[c];
      }
      C inverse = 1 / sum;
#pragma omp simd
      for (std::int64_t c = 0; c < end; ++c) row[c] *= inverse;
      normalizer[first + r] = h.scale * top + std::log(sum);
    }
    cpu::tile_gemm<C>(rows, h.psize, keys, {s, h.ptime, 1}, v, h.psize, o + first * h.psize,
                      h.psize, false);
  }
  h.store(o, C(1), y, width);
}

template <class T>
void attend_backward(const Head<T>& h, const T* qkv, std::int64_t width, const T* y, const T* dy,
                     const Compute<T>* normalizer, Compute<T>* scratch, T* dqkv) {
  using C = Compute<T>;
  std::int64_t tall = h.time * h.psize, wide = h.psize * h.ptime;
  C *q = scratch, *k = q + tall, *v = k + tall, *g = v + tall, *dq = g + tall, *dk = dq + tall,
    *dv = dk + tall, *kt = dv + tall, *vt = kt + wide, *p = vt + wide,
    *ds = p + block_rows * h.ptime;
  h.load(qkv, h.pitch, q);
  h.load(qkv + width, h.pitch, k);
  h.load(qkv + 2 * width, h.pitch, v);
  h.load(dy, width, g);
  h.transpose(k, kt);
  h.transpose(v, vt);
  std::fill(dk, dk + 2 * tall, C(0));
  for (std::int64_t first = 0; first < h.time; first += block_rows) {
    std::int64_t rows = std::min(block_rows, h.time - first), keys = first + rows;
    std::int64_t columns = padded(keys, cpu::column_multiple<C>);
    scores(h, q, kt, first, rows, columns, p);
    scores(h, g, vt, first, rows, columns, ds);  // dP = dO V^T
    for (std::int64_t r = 0; r < rows; ++r) {
      C *prow = p + r * h.ptime, *drow = ds + r * h.ptime, dot = 0, z = normalizer[first + r];
      const T *yrow = y + (first + r) * width, *grow = dy + (first + r) * width;
      for (std::int64_t c = 0; c < h.size; ++c) dot += C(yrow[c]) * C(grow[c]);
      std::int64_t end = hide_later(prow, first + r + 1, keys);
#pragma omp simd
      for (std::int64_t c = 0; c < end; ++c) {
        prow[c] = cpu::vector_exp(h.scale * prow[c] - z);
        drow[c] = prow[c] * (drow[c] - dot);
      }
      std::fill(drow + std::min(end, keys), drow + keys, C(0));
    }
    const C *qb = q + first * h.psize, *gb = g + first * h.psize;
    cpu::tile_gemm<C>(rows, h.psize, keys, {ds, h.ptime, 1}, k, h.psize, dq + first * h.psize,
                      h.psize, false);  // dQ = dS K
    cpu::tile_gemm<C>(keys, h.psize, rows, {ds, 1, h.ptime}, qb, h.psize, dk, h.psize, true);
    cpu::tile_gemm<C>(keys, h.psize, rows, {p, 1, h.ptime}, gb, h.psize, dv, h.psize, true);
  }
  h.store(dq, h.scale, dqkv, h.pitch);
  h.store(dk, h.scale, dqkv + width, h.pitch);
  h.store(dv, C(1), dqkv + 2 * width, h.pitch);
}

}  // namespace

void CpuBackend::attention(In qkv, int heads, Out y, Out normalizer) {
  dispatch(qkv.dtype(), [&]<class T>() {
    using C = Compute<T>;
    std::int64_t time = y.size(1), width = y.size(2), size = width / heads;
    Head<T> h{time, size, 3 * width};
    Scratch<C> scratch(3 * time * h.psize + h.psize * h.ptime + block_rows * h.ptime, y.device());
    cpu::parallel_each(y.size(0) * heads, h.work(), [&](std::int64_t i) {
      std::int64_t b = i / heads, at = i % heads * size;
      attend(h, qkv.data<T>() + b * time * 3 * width + at, width, scratch.mine(),
             y.data<T>() + b * time * width + at, normalizer.data<C>() + i * time);
    });
  });
}

void CpuBackend::attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
  dispatch(qkv.dtype(), [&]<class T>() {
    using C = Compute<T>;
    std::int64_t time = y.size(1), width = y.size(2), size = width / heads;
    Head<T> h{time, size, 3 * width};
    Scratch<C> scratch(7 * time * h.psize + 2 * h.psize * h.ptime + 2 * block_rows * h.ptime,
                       y.device());
    cpu::parallel_each(y.size(0) * heads, h.work(), [&](std::int64_t i) {
      std::int64_t b = i / heads, at = i % heads * size;
      std::int64_t packed = b * time * 3 * width + at, plain = b * time * width + at;
      attend_backward(h, qkv.data<T>() + packed, width, y.data<T>() + plain, dy.data<T>() + plain,
                      normalizer.data<C>() + i * time, scratch.mine(), dqkv.data<T>() + packed);
    });
  });
}

}  // namespace paragrad::autograd
