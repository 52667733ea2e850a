// Kernels that fill tensors and move values: copies between types and places, and copies by index;
// reductions over a tensor's dimensions, and the sum of squares.
// Not here: the choice of the indices (sparse/pruning.h), sparse messages
// (autograd/cpu/sparse_values.cpp), and sums that other kernels compute while they work
// (autograd/cpu/parallel.h). Chapters 03 and 11; Singh and Bhatele 2023 (SAMO).
#include <cstring>
#include <limits>

#include "autograd/cpu/parallel.h"

namespace plangrad::autograd {

void CpuBackend::copy(In x, Out y) {
  if (x.dtype() == y.dtype()) {
    cpu::parallel_for(x.bytes(), 4 * cpu::element_grain,
                      [&](std::int64_t first, std::int64_t last) {
                        std::memmove(y.raw() + first, x.raw() + first, last - first);
                      });
    return;
  }
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      cpu::map<To>(
          y, [](auto v) { return static_cast<Compute<To>>(v); }, x.data<From>());
    });
  });
}

/// y[i] = value(i), element by element.
template <class Value>
static void generate(const Tensor& y, Value value) {
  dispatch(y.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    cpu::parallel_each(y.numel(), 16,
                       [=](std::int64_t i) { out[i] = static_cast<Compute<T>>(value(i)); });
  });
}

void CpuBackend::fill(double value, Out y) {
  if (cpu::without_values) return;
  if (value == 0 && y.bytes()) {
    std::memset(y.raw(), 0, y.bytes());
    return;
  }
  generate(y, [value](std::int64_t) { return value; });
}

void CpuBackend::fill_normal(RandomKey key, double mean, double deviation, Out y) {
  generate(y, [=](std::int64_t i) { return mean + deviation * normal(key, i); });
}

void CpuBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  generate(y, [=](std::int64_t i) { return low + (high - low) * uniform(key, i); });
}

template <class Word>
static void permute_words(const Tensor& x, const std::vector<int>& order, const Tensor& y) {
  const int rank = y.shape().rank();
  std::vector<WalkStep> walk;
  for (int i = 0; i < rank; ++i)
    walk.push_back({y.size(i), x.shape().product(x.shape().axis(order[i]) + 1, rank), 0});
  auto run = [in = reinterpret_cast<const Word*>(x.raw()), out = reinterpret_cast<Word*>(y.raw())](
                 std::int64_t first, WalkStep step, WalkPlace at) {
    for (std::int64_t j = 0; j < step.size; ++j) out[first + j] = in[at.a + j * step.a];
  };
  cpu::for_runs(walk, y.numel(), run);
}

void CpuBackend::permute(In x, const std::vector<int>& order, Out y) {
  switch (size_of(x.dtype())) {
    case 1: return permute_words<std::uint8_t>(x, order, y);
    case 2: return permute_words<std::uint16_t>(x, order, y);
    case 4: return permute_words<std::uint32_t>(x, order, y);
    default: return permute_words<std::uint64_t>(x, order, y);
  }
}

/// Checks the first and the last index only: indices ascend, so the others lie between.
static void check_index(const char* kernel, const Tensor& index, std::int64_t listed,
                        const Tensor& all) {
  const std::int64_t count = index.numel();
  PG_CHECK(count == listed, kernel, ": there are ", count, " indices for ", listed, " elements");
  if (count == 0 || cpu::without_values) return;
  const std::int32_t* i = index.data<std::int32_t>();
  PG_CHECK(i[0] >= 0 && i[count - 1] < all.numel(), kernel, ": indices ", i[0], " to ",
           i[count - 1], " are not all in a tensor of ", all.numel(), " elements");
}

void CpuBackend::gather(In x, In index, bool add, Out y) {
  check_index("gather", index, y.numel(), x);
  const std::int32_t* at = index.data<std::int32_t>();
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      const From* from = x.data<From>();
      To* to = y.data<To>();
      cpu::parallel_each(y.numel(), 1, [=](std::int64_t i) {
        const auto value = static_cast<Compute<To>>(static_cast<Compute<From>>(from[at[i]]));
        to[i] = add ? static_cast<Compute<To>>(to[i]) + value : value;
      });
    });
  });
}

void CpuBackend::expand(In x, In index, Out y) {
  check_index("expand", index, x.numel(), y);
  fill(0, y);
  const std::int32_t* at = index.data<std::int32_t>();
  dispatch(y.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    cpu::parallel_each(x.numel(), 1, [=](std::int64_t i) { to[at[i]] = from[i]; });
  });
}

namespace {

template <class C>
struct Sum {
  static constexpr C start = 0;
  C operator()(C a, C b) const { return a + b; }
};

template <class C>
struct Max {
  static constexpr C start = -std::numeric_limits<C>::infinity();
  C operator()(C a, C b) const { return a != a || a > b ? a : b; }  // keeps NaN
};

/// y[o,i] = op over r of x[o,r,i].
template <class Op, class T, class U>
void reduce_middle(const T* x, U* y, std::int64_t outer, std::int64_t reduced, std::int64_t inner) {
  using C = Compute<T>;
  constexpr Op op;
  if (inner == 1) {
    cpu::parallel_each(outer, reduced, [=](std::int64_t o) {
      auto value = [row = x + o * reduced](std::int64_t r) { return C(row[r]); };
      y[o] = static_cast<U>(cpu::fold_in_turn<16>(0, reduced, Op::start, op, value));
    });
    return;
  }
  constexpr std::int64_t lanes = 16;
  std::int64_t strips = (inner + lanes - 1) / lanes;
  cpu::parallel_each(outer * strips, lanes * reduced, [=](std::int64_t strip) {
    std::int64_t o = strip / strips, i = strip % strips * lanes, width = std::min(lanes, inner - i);
    C sum[lanes];
    std::fill(sum, sum + lanes, Op::start);
    const T* from = x + o * reduced * inner + i;
    for (std::int64_t r = 0; r < reduced; ++r, from += inner) {
      if (width == lanes)
        for (std::int64_t l = 0; l < lanes; ++l) sum[l] = op(sum[l], C(from[l]));
      else
        for (std::int64_t l = 0; l < width; ++l) sum[l] = op(sum[l], C(from[l]));
    }
    for (std::int64_t l = 0; l < width; ++l) y[o * inner + i + l] = static_cast<U>(sum[l]);
  });
}

template <template <class> class Op>
void reduce_run(const Tensor& x, const Tensor& y, const ReducedRun& run) {
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(y.dtype(), [&]<class U>() {
      reduce_middle<Op<Compute<T>>>(x.data<T>(), y.data<U>(), run.outer, run.reduced, run.inner);
    });
  });
}

}  // namespace

void CpuBackend::reduce(Reduction op, In x, Out y) {
  const ReducedRun run(x.shape(), y.shape());  // earlier runs need another pass
  Shape shape = x.shape();
  for (int i = run.first; i < run.last; ++i) shape = shape.with(i, 1);
  bool done = shape == y.shape();
  Tensor target = done ? y : workspace(shape, statistic_dtype(x.dtype()), x.device());
  if (op == Reduction::sum)
    reduce_run<Sum>(x, target, run);
  else
    reduce_run<Max>(x, target, run);
  if (!done) reduce(op, target, y);
}

std::vector<double> CpuBackend::sums_of_squares(const std::vector<Tensor>& tensors) {
  constexpr std::int64_t block = 4096;
  std::vector<double> sums;
  for (const Tensor& x : tensors) {
    std::int64_t blocks = (x.numel() + block - 1) / block;
    std::vector<double> partial(blocks);
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.data<T>();
      cpu::parallel_each(blocks, block, [&](std::int64_t b) {
        auto square = [=](std::int64_t i) { return double(in[i]) * double(in[i]); };
        std::int64_t first = b * block, last = std::min(x.numel(), first + block);
        partial[b] = cpu::fold_in_turn<8>(first, last, 0.0, std::plus<>(), square);
      });
    });
    sums.push_back(std::accumulate(partial.begin(), partial.end(), 0.0));
  }
  return sums;
}

}  // namespace plangrad::autograd
