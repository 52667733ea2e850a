// Layer norm of a matrix's rows, or of the rows of its sum with another matrix, and its gradient. A
// warp takes a row that fits into its registers, a block a wider one. Backward, each thread sums
// its columns' shares of the gradients of weight and bias over some rows, whose number the shape
// alone decides; the shares are added afterwards.
// Not here: batch norm. Chapters 02 and 03; Ba, Kiros and Hinton 2016, eq. 3.
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

// How a row is divided: E of its elements per thread stay in registers, and 32 threads take a row
// if E is warp_elements, or a block if it is block_elements. If E is 0, a block loads them again.
constexpr int warp_elements = 24, block_elements = 16;
constexpr unsigned row_warps = 4;  // of a block whose warps have a row each

template <int N, int E>
constexpr unsigned most_threads = E == 0               ? 1024
                                  : E == warp_elements ? 32 * row_warps
                                  : N > 1              ? 512
                                                       : 256;
/// The blocks that a processor has registers for, at least: packs of bf16 leave room for three.
template <int N, int E>
constexpr unsigned least_blocks = (E == warp_elements && N == 8) ? 3 : 1;

/// Adds over the threads of a row.
template <int E, class T>
__device__ T row_sum(T value) {
  if constexpr (E == warp_elements)
    return warp_sum(value);
  else
    return block_sum(value);
}

/// This thread's packs of a row; zeros without one.
template <int N, int E, class T>
class Row {
 public:
  __device__ Row() : packs_{} {}
  __device__ Row(const T* row, std::int64_t width) : row_(row) {
    if constexpr (E > 0)
      for_each(width, [&](std::int64_t c, int k) { packs_[k] = load<Pack<T, N>>(row + c); });
  }
  /// This thread's pack k, which begins at column c.
  __device__ Pack<T, N> at(std::int64_t c, int k) const {
    if constexpr (E > 0)
      return packs_[k];
    else
      return row_ ? load<Pack<T, N>>(row_ + c) : Pack<T, N>{};
  }
  /// Adds another row; `to` receives the sum, rounded.
  __device__ void add(const Row& other, std::int64_t width, T* to) {
    for_each(width, [&](std::int64_t c, int k) {
      const auto a = at(c, k), b = other.at(c, k);
      const auto sum = pack<T, N>([&](int j) { return to_float(a.at[j]) + to_float(b.at[j]); });
      if constexpr (E > 0) packs_[k] = sum;
      store(to + c, sum);
    });
    row_ = to;
  }
  /// Calls body(c, k) for each pack of this thread.
  template <class Body>
  static __device__ void for_each(std::int64_t width, Body body) {
    const int threads = E == warp_elements ? 32 : blockDim.x, begin = threadIdx.x * N;
    if constexpr (E > 0) {
      PG_UNROLL
      for (int k = 0; k < E / N; ++k)
        if (const int c = threads * k * N + begin; c < width) body(c, k);
    } else {
      for (std::int64_t c = begin; c < width; c += threads * N) body(c, 0);
    }
  }

 private:
  const T* row_ = nullptr;
  Pack<T, N> packs_[E > 0 ? E / N : 1];
};

/// Calls dispatch_packs with E (see warp_elements), and the threads of a block: those of a row, and
/// the number of rows.
template <class Kernel>
void dispatch_row(std::int64_t width,
                  std::initializer_list<std::reference_wrapper<const Tensor>> tensors,
                  Kernel&& kernel) {
  dispatch_packs(width, tensors, [&]<class T, int N>() {
    if (width <= 32 * warp_elements)
      kernel.template operator()<T, N, warp_elements>(dim3(32, row_warps));
    else if (width <= most_threads<N, block_elements> * block_elements)
      kernel.template operator()<T, N, block_elements>(
          dim3(blocks_for(width, 32 * block_elements) * 32));
    else
      kernel.template operator()<T, N, 0>(dim3(most_threads<N, 0>));
  });
}

namespace {

/// Normalises x, or, if there is an `a`, x + a, which `sum` receives.
template <int N, int E, class T>
__global__ void __launch_bounds__(most_threads<N, E>, least_blocks<N, E>)
    layer_norm_kernel(std::int64_t rows, std::int64_t width, const T* __restrict__ x,
                      const T* __restrict__ a, const T* __restrict__ weight,
                      const T* __restrict__ bias, float epsilon, T* __restrict__ sum,
                      T* __restrict__ y, float* mean, float* inverse) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  Row<N, E, T> row(x + r * width, width);
  if (a) row.add(Row<N, E, T>(a + r * width, width), width, sum + r * width);
  float total = 0, squares = 0;
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    for (int j = 0; j < N; ++j) total += to_float(p.at[j]);
  });
  const float average = row_sum<E>(total) / width;
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    for (int j = 0; j < N; ++j)
      squares += (to_float(p.at[j]) - average) * (to_float(p.at[j]) - average);
  });
  const float scale = 1 / sqrtf(row_sum<E>(squares) / width + epsilon);
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    const auto w = load<Pack<T, N>>(weight + c), b = load<Pack<T, N>>(bias + c);
    store(y + r * width + c, pack<T, N>([&](int j) {
            const float normalised = (to_float(p.at[j]) - average) * scale;
            return normalised * to_float(w.at[j]) + to_float(b.at[j]);
          }));
  });
  if (threadIdx.x == 0) {
    mean[r] = average;
    inverse[r] = scale;
  }
}

}  // namespace

void CudaBackend::layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y,
                             Out mean, Out inverse) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const Tensor &other = a.defined() ? a : x, &target = a.defined() ? sum : y;
  dispatch_row(width, {x, other, weight, bias, target, y}, [&]<class T, int N, int E>(dim3 block) {
    run(layer_norm_kernel<N, E, T>, {blocks_for(rows, block.y), block}, rows, width, x,
        a.defined() ? a.data<T>() : nullptr, weight, bias, epsilon, target, y, mean, inverse);
  });
}

namespace {

/// As many as a large GPU runs at once, nearly: three blocks of four warps on each processor, or,
/// for example, six of two.
template <int E>
constexpr std::int64_t most_blocks = E == warp_elements ? 384 : 768;

/// A row's normalised elements n, and dn = dy weight, at N columns.
template <int N>
struct Normalised {
  float n[N], dn[N], dy[N];

  template <class T>
  __device__ Normalised(const Pack<T, N>& x, const T* weight, const Pack<T, N>& d, float mean,
                        float inverse) {
    const auto w = load<Pack<T, N>>(weight);
    for (int j = 0; j < N; ++j) {
      n[j] = (to_float(x.at[j]) - mean) * inverse;
      dy[j] = to_float(d.at[j]);
      dn[j] = dy[j] * to_float(w.at[j]);
    }
  }
};

/// This thread's sums of columns over rows: in registers, or in the block's share of the total.
template <int N, int E>
class ColumnSums {
 public:
  __device__ explicit ColumnSums(float* share, std::int64_t width) : share_(share) {
    Row<N, E, float>::for_each(width, [&](std::int64_t c, int k) {
      for (int j = 0; j < N; ++j) at(c, k, j) = 0;
    });
  }
  __device__ float& at(std::int64_t c, int k, int j) {
    if constexpr (E > 0)
      return sums_[k * N + j];
    else
      return share_[c + j];
  }
  /// Writes the block's share. If its warps have a row each, their sums are added in order.
  __device__ void finish(std::int64_t width) {
    if constexpr (E == warp_elements) {
      using Places = ColumnPlaces<N, 32 * warp_elements>;
      __shared__ float of_block[Places::count];
      __syncthreads();  // all threads have read the sums of another object
      for (unsigned turn = 0; turn < blockDim.y; ++turn) {
        if (threadIdx.y == turn)
          for_each(width, [&](std::int64_t c, float sum) {
            float& total = of_block[Places::of(static_cast<int>(c))];
            total = turn > 0 ? total + sum : sum;
          });
        __syncthreads();
      }
      for (int c = threadIdx.y * 32 + threadIdx.x; c < width; c += 32 * blockDim.y)
        share_[c] = of_block[Places::of(c)];
    } else if constexpr (E > 0) {
      for_each(width, [&](std::int64_t c, float sum) { share_[c] = sum; });
    }
  }

 private:
  /// Calls body(c, sum) for each column of this thread.
  template <class Body>
  __device__ void for_each(std::int64_t width, Body body) {
    Row<N, E, float>::for_each(width, [&](std::int64_t c, int k) {
      for (int j = 0; j < N; ++j) body(c + j, at(c, k, j));
    });
  }

  float* share_;
  float sums_[E > 0 ? E : 1];
};

/// Two sums that are needed at once.
struct Two {
  float a, b;
};

template <int E>
__device__ Two row_sums(Two value) {
  auto across_warp = [](Two x) { return Two{warp_sum(x.a), warp_sum(x.b)}; };
  if constexpr (E == warp_elements)
    return across_warp(value);
  else
    return block_reduce(value, Two{0, 0}, across_warp);
}

/// dx is the gradient of x, plus `so_far` if there is one. shares[0,block] and shares[1,block]:
/// sums over the block's rows of dy n, and of dy.
template <int N, int E, class T>
__global__ void __launch_bounds__(most_threads<N, E>, least_blocks<N, E>)
    layer_norm_backward_kernel(std::int64_t rows, std::int64_t part, std::int64_t width,
                               const T* __restrict__ x, const T* __restrict__ weight,
                               const float* __restrict__ mean, const float* __restrict__ inverse,
                               const T* __restrict__ dy, const T* __restrict__ so_far,
                               T* __restrict__ dx, float* shares) {
  float* share = shares + blockIdx.x * width;
  ColumnSums<N, E> dweight(share, width), dbias(share + gridDim.x * width, width);
  const std::int64_t first = blockIdx.x * part, end = min(first + part, rows);
  for (std::int64_t r = first + threadIdx.y; r < end; r += blockDim.y) {
    const Row<N, E, T> row(x + r * width, width), gradient(dy + r * width, width);
    Row<N, E, T> before;
    if (so_far) before = Row<N, E, T>(so_far + r * width, width);
    const float average = mean[r], scale = inverse[r];
    Two sums{0, 0};
    row.for_each(width, [&](std::int64_t c, int k) {
      const Normalised<N> at(row.at(c, k), weight + c, gradient.at(c, k), average, scale);
      for (int j = 0; j < N; ++j) {
        sums.a += at.dn[j];
        sums.b += at.dn[j] * at.n[j];
        dweight.at(c, k, j) += at.dy[j] * at.n[j];
        dbias.at(c, k, j) += at.dy[j];
      }
    });
    sums = row_sums<E>(sums);
    const float mean_dn = sums.a / width, mean_dn_n = sums.b / width;
    row.for_each(width, [&](std::int64_t c, int k) {
      const Normalised<N> at(row.at(c, k), weight + c, gradient.at(c, k), average, scale);
      const auto added = before.at(c, k);
      store(dx + r * width + c, pack<T, N>([&](int j) {
              return (at.dn[j] - mean_dn - at.n[j] * mean_dn_n) * scale + to_float(added.at[j]);
            }));
    });
  }
  dweight.finish(width);
  dbias.finish(width);
}

/// Adds the blocks' shares (2,shares,width): blockIdx.y 0 adds those of dweight, 1 those of dbias.
__global__ void __launch_bounds__(1024)
    add_shares_kernel(std::int64_t shares, std::int64_t width, const float* __restrict__ of_blocks,
                      float* dweight, float* dbias) {
  const std::int64_t first = std::int64_t{blockIdx.x} * 32, column = first + threadIdx.x;
  const float* from = of_blocks + blockIdx.y * shares * width + column;
  float sum[1] = {};
  if (column < width)
    for (std::int64_t i = threadIdx.y; i < shares; i += blockDim.y) sum[0] += from[i * width];
  for_columns_of_warps<32>(sum, std::plus<float>(), [&](int c, float total) {
    if (first + c < width) (blockIdx.y ? dbias : dweight)[first + c] = total;
  });
}

}  // namespace

void CudaBackend::layer_norm_backward(In x, In weight, In mean, In inverse, In dy, In so_far,
                                      Out dx, Out dweight, Out dbias) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const Tensor& before = so_far.defined() ? so_far : dy;
  dispatch_row(width, {x, weight, dy, before, dx}, [&]<class T, int N, int E>(dim3 block) {
    const std::int64_t part =
        std::max<std::int64_t>(2 * row_warps, blocks_for(rows, most_blocks<E>));
    const unsigned blocks = blocks_for(rows, part);
    const Tensor shares = workspace({2, blocks, width}, DType::f32, x.device());
    run(layer_norm_backward_kernel<N, E, T>, {blocks, block}, rows, part, width, x, weight, mean,
        inverse, dy, so_far.defined() ? so_far.data<T>() : nullptr, dx, shares);
    run(add_shares_kernel, {{blocks_for(width, 32), 2}, {32, 32}}, blocks, width, shares, dweight,
        dbias);
  });
}

}  // namespace plangrad::cuda
