// Reductions over a tensor's dimensions, and the sum of squares.
// Not here: sums that other kernels compute while they work (autograd/cpu/parallel.h).
// Chapter 03.
#include <limits>

#include "autograd/cpu/parallel.h"

namespace plangrad::autograd {

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

void CpuBackend::max_backward(In x, In y, In dy, Out dx) {
  CategoryScope category(*x.device(), Category::workspace);
  Tensor stretched = zeros(x.shape(), x.dtype(), x.device()), count = empty_like(y);
  binary(Binary::add, stretched, y, stretched);
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *top = stretched.data<T>();
    T* mark = dx.data<T>();
    cpu::parallel_each(x.numel(), 1,
                       [=](std::int64_t i) { mark[i] = Compute<T>(in[i] == top[i]); });
  });
  reduce(Reduction::sum, dx, count);
  binary(Binary::divide, dx, count, dx);
  binary(Binary::multiply, dx, dy, dx);
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
