// Causal attention, head by head, a block of queries at a time.
// Not here: a T x T matrix. A thread holds scores for one block of queries only.
// Chapter 02; Dao et al. 2022, "FlashAttention", sections 3.1 and B.4.
#include "autograd/cpu/tile_gemm.h"
#include "autograd/cpu/vector_math.h"

namespace plangrad::autograd {
namespace {

constexpr std::int64_t block_rows = 48;  // queries at a time: eight tiles of six

std::int64_t padded(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Sizes of one head's work, and the places of its values in (B,T,width). A factor of a product is
/// a value, widened. Where the processor multiplies pairs of bf16, it is two values, neighbours
/// along the dimension over which the product adds.
template <class T>
struct Head {
  using C = Compute<T>;
  using Factor = std::conditional_t<cpu::has_pairs && std::is_same_v<T, bf16>, cpu::Pair, C>;
  using Value = std::conditional_t<std::is_same_v<Factor, cpu::Pair>, bf16, C>;
  static constexpr std::int64_t per = sizeof(Factor) / sizeof(Value);  ///< values of a factor

  std::int64_t time, size;  ///< T and d
  std::int64_t pitch;       ///< elements from one position's values to the next position's
  std::int64_t ptime = padded(time, cpu::column_multiple<C>);  ///< padded for tiles
  std::int64_t psize = padded(size, cpu::column_multiple<C>);
  std::int64_t row = psize / per;                                ///< factors of a position's values
  std::int64_t all = ptime * row;                                ///< factors of a head's values
  std::int64_t block = padded(std::min(block_rows, time), per);  ///< rows of scores at a time
  C scale = C(1 / std::sqrt(static_cast<double>(size)));

  /// The cost of a head, in elements of an element-wise loop.
  std::int64_t work() const { return time * time * size / 16; }

  /// The number of factors that hold n values.
  static std::int64_t factors(std::int64_t n) { return (n + per - 1) / per; }
  static Value* values(Factor* factors) { return reinterpret_cast<Value*>(factors); }

  /// Copies a head's values, padded with zeros.                                (T,d) -> (ptime,row)
  void load(const T* from, std::int64_t from_pitch, Factor* to) const {
    for (std::int64_t t = 0; t < time; ++t) {
      Value* out = values(to + t * row);
      std::copy_n(from + t * from_pitch, size, out);
      std::fill(out + size, out + psize, Value(0));
    }
    std::fill(to + time * row, to + ptime * row, Factor{});
  }
  /// Transposes rows made by load(), a block at a time.                  (ptime,row) -> (row,ptime)
  void transpose(const Factor* from, Factor* to) const {
    constexpr std::int64_t tall = cpu::column_multiple<C>, wide = 8;
    for (std::int64_t t = 0; t < ptime; t += tall)
      for (std::int64_t c = 0; c < row; c += wide)
        for (std::int64_t i = 0; i < wide; ++i)
          for (std::int64_t j = 0; j < tall; ++j)
            to[(c + i) * ptime + t + j] = from[(t + j) * row + c + i];
  }
  /// Returns the factors of a product that adds over rows: the rows, or pairs of them, written to
  /// `to`. After an odd number of rows follows a row of zeros.       (rows,wide) -> (rows/per,wide)
  static const Factor* over_rows(Factor* from, std::int64_t rows, std::int64_t wide, Factor* to) {
    if constexpr (per == 1)
      return from;
    else
      for (std::int64_t r = 0; r < rows; r += 2) {
        const bf16 *even = values(from) + r * wide, *odd = even + wide;
        cpu::Pair* out = to + r / 2 * wide;
#pragma omp simd
        for (std::int64_t c = 0; c < wide; ++c) {
          out[c].first.bits = even[c].bits;
          out[c].second.bits = odd[c].bits;
        }
      }
    return to;
  }
  void store(const C* from, C factor, std::int64_t rows, T* to, std::int64_t to_pitch) const {
    for (std::int64_t t = 0; t < rows; ++t)
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
template <class T, class F = typename Head<T>::Factor>
void scores(const Head<T>& h, const F* q, const F* k_transposed, std::int64_t first,
            std::int64_t rows, std::int64_t columns, Compute<T>* s) {
  cpu::tile_gemm<F>(rows, columns, h.factors(h.size), {q + first * h.row, h.row, 1}, k_transposed,
                    h.ptime, s, columns, false);
}

/// Hides the keys from `seen` to a vector's end by -inf, which exp turns into 0; returns that end.
template <class C>
std::int64_t hide_later(C* row, std::int64_t seen) {
  std::int64_t end = padded(seen, cpu::column_multiple<C>);
  std::fill(row + seen, row + end, -std::numeric_limits<C>::infinity());
  return end;
}

/// Turns scores of `seen` keys into shares, and all later ones into zeros. Returns log(sum exp).
template <class T, class C = Compute<T>>
C softmax(const Head<T>& h, std::int64_t seen, std::int64_t columns, C* scores,
          typename Head<T>::Value* shares) {
  std::int64_t end = hide_later(scores, seen);
  C top = -std::numeric_limits<C>::infinity(), sum = 0;
#pragma omp simd reduction(max : top)
  for (std::int64_t c = 0; c < end; ++c) top = std::max(top, scores[c]);
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < end; ++c) {
    scores[c] = cpu::vector_exp(h.scale * (scores[c] - top));
    sum += scores[c];
  }
  C inverse = 1 / sum;
#pragma omp simd
  for (std::int64_t c = 0; c < end; ++c) shares[c] = scores[c] * inverse;
  std::fill(shares + end, shares + columns, 0);
  return h.scale * top + std::log(sum);
}

/// Turns scores into shares P again, and dP into the gradients of the scores, P (dP - `dot`).
template <class T, class C = Compute<T>>
void softmax_backward(const Head<T>& h, std::int64_t seen, std::int64_t columns, C normalizer,
                      C dot, C* scores, const C* dp, typename Head<T>::Value* shares,
                      typename Head<T>::Value* ds) {
  std::int64_t end = hide_later(scores, seen);
#pragma omp simd
  for (std::int64_t c = 0; c < end; ++c) {
    C share = cpu::vector_exp(h.scale * scores[c] - normalizer);
    shares[c] = share;
    ds[c] = share * (dp[c] - dot);
  }
  std::fill(shares + end, shares + columns, 0);
  std::fill(ds + end, ds + columns, 0);
}

/// Scratch memory of a head; all elements have one size.
template <class T>
struct Room {
  using C = Compute<T>;
  using F = typename Head<T>::Factor;
  static_assert(sizeof(F) == sizeof(C));
  C* next;

  C* take(std::int64_t n) { return std::exchange(next, next + n); }
  F* factors(std::int64_t n) { return reinterpret_cast<F*>(take(n)); }
  /// Room for n pairs; none if factors are values, which need no pairing.
  F* pairs(std::int64_t n) { return factors((Head<T>::per - 1) * n); }
  /// Room for factors made from n values: that of the values, if a factor is as wide as a value.
  F* in_place_of(C* values, std::int64_t n) {
    return Head<T>::per == 1 ? reinterpret_cast<F*>(values) : pairs(n / Head<T>::per);
  }
};

template <class T>
std::int64_t attend_scratch(const Head<T>& h) {
  return 4 * h.all + h.block * (h.psize + h.ptime) + (h.per - 1) * (h.all + h.block * h.ptime / 2);
}

template <class T>
void attend(const Head<T>& h, const T* qkv, std::int64_t width, Compute<T>* scratch, T* y,
            Compute<T>* normalizer) {
  using C = Compute<T>;
  using F = typename Head<T>::Factor;
  Room<T> room{scratch};
  F *q = room.factors(h.all), *k = room.factors(h.all), *v = room.factors(h.all),
    *kt = room.factors(h.all);
  C *s = room.take(h.block * h.ptime), *o = room.take(h.block * h.psize);
  F* p = room.in_place_of(s, h.block * h.ptime);
  h.load(qkv, h.pitch, q);
  h.load(qkv + width, h.pitch, k);
  h.load(qkv + 2 * width, h.pitch, v);
  h.transpose(k, kt);
  const F* v_over_keys = h.over_rows(v, h.ptime, h.psize, room.pairs(h.all));
  for (std::int64_t first = 0; first < h.time; first += block_rows) {
    std::int64_t rows = std::min(block_rows, h.time - first), keys = first + rows;
    std::int64_t columns = padded(keys, cpu::column_multiple<C>);
    scores(h, q, kt, first, rows, columns, s);
    for (std::int64_t r = 0; r < rows; ++r)
      normalizer[first + r] =
          softmax(h, first + r + 1, columns, s + r * columns, h.values(p) + r * columns);
    cpu::tile_gemm<F>(rows, h.psize, h.factors(keys), {p, columns / h.per, 1}, v_over_keys, h.psize,
                      o, h.psize, false);
    h.store(o, C(1), rows, y + first * width, width);
  }
}

template <class T>
std::int64_t attend_backward_scratch(const Head<T>& h) {
  return 6 * h.all + 2 * h.time * h.psize + h.block * (h.psize + 2 * h.ptime) +
         (h.per - 1) * (3 * h.all + 2 * h.block * h.ptime);
}

template <class T>
void attend_backward(const Head<T>& h, const T* qkv, std::int64_t width, const T* y, const T* dy,
                     const Compute<T>* normalizer, Compute<T>* scratch, T* dqkv) {
  using C = Compute<T>;
  using F = typename Head<T>::Factor;
  Room<T> room{scratch};
  F* loaded[4];  // q k v dO
  const T* from[] = {qkv, qkv + width, qkv + 2 * width, dy};
  for (int i = 0; i < 4; ++i) {
    loaded[i] = room.factors(h.all);
    h.load(from[i], i < 3 ? h.pitch : width, loaded[i]);
  }
  auto [q, k, v, g] = loaded;
  auto over_time = [&](F* x) { return h.over_rows(x, h.ptime, h.psize, room.pairs(h.all)); };
  const F *q_over = over_time(q), *k_over = over_time(k), *g_over = over_time(g);
  F *kt = room.factors(h.all), *vt = room.factors(h.all);
  h.transpose(k, kt);
  h.transpose(v, vt);
  C *dk = room.take(h.time * h.psize), *dv = room.take(h.time * h.psize);
  std::fill(dk, dk + h.time * h.psize, C(0));
  std::fill(dv, dv + h.time * h.psize, C(0));
  const std::int64_t square = h.block * h.ptime;
  C *s = room.take(square), *dp = room.take(square), *dq = room.take(h.block * h.psize);
  F *p = room.in_place_of(s, square), *ds = room.in_place_of(dp, square),
    *p_pairs = room.pairs(square / h.per), *ds_pairs = room.pairs(square / h.per);
  for (std::int64_t first = 0; first < h.time; first += block_rows) {
    std::int64_t rows = std::min(block_rows, h.time - first), keys = first + rows;
    std::int64_t columns = padded(keys, cpu::column_multiple<C>);
    scores(h, q, kt, first, rows, columns, s);
    scores(h, g, vt, first, rows, columns, dp);  // dP = dO V^T
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *out = y + (first + r) * width, *dout = dy + (first + r) * width;
      C dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t c = 0; c < h.size; ++c) dot += C(out[c]) * C(dout[c]);
      const std::int64_t at = r * columns;
      softmax_backward(h, first + r + 1, columns, normalizer[first + r], dot, s + at, dp + at,
                       h.values(p) + at, h.values(ds) + at);
    }
    // The row of zeros after an odd number of rows.
    for (F* last : {p, ds})
      std::fill_n(last + rows * columns / h.per, rows % h.per * columns / 2, F{});
    cpu::tile_gemm<F>(rows, h.psize, h.factors(keys), {ds, columns / h.per, 1}, k_over, h.psize, dq,
                      h.psize, false);  // dQ = dS K
    h.store(dq, h.scale, rows, dqkv + first * h.pitch, h.pitch);
    const std::int64_t at = first / h.per * h.psize;
    const F *ds_over = h.over_rows(ds, rows, columns, ds_pairs),
            *p_over = h.over_rows(p, rows, columns, p_pairs);
    cpu::tile_gemm<F>(keys, h.psize, h.factors(rows), {ds_over, 1, columns}, q_over + at, h.psize,
                      dk, h.psize, true);
    cpu::tile_gemm<F>(keys, h.psize, h.factors(rows), {p_over, 1, columns}, g_over + at, h.psize,
                      dv, h.psize, true);
  }
  h.store(dk, h.scale, h.time, dqkv + width, h.pitch);
  h.store(dv, C(1), h.time, dqkv + 2 * width, h.pitch);
}

}  // namespace

void CpuBackend::attention(In qkv, int heads, Out y, Out normalizer) {
  dispatch(qkv.dtype(), [&]<class T>() {
    using C = Compute<T>;
    std::int64_t time = y.size(1), width = y.size(2), size = width / heads;
    Head<T> h{time, size, 3 * width};
    Scratch<C> scratch(attend_scratch(h), y.device());
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
    Scratch<C> scratch(attend_backward_scratch(h), y.device());
    cpu::parallel_each(y.size(0) * heads, h.work(), [&](std::int64_t i) {
      std::int64_t b = i / heads, at = i % heads * size;
      std::int64_t packed = b * time * 3 * width + at, plain = b * time * width + at;
      attend_backward(h, qkv.data<T>() + packed, width, y.data<T>() + plain, dy.data<T>() + plain,
                      normalizer.data<C>() + i * time, scratch.mine(), dqkv.data<T>() + packed);
    });
  });
}

}  // namespace plangrad::autograd
