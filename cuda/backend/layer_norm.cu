// Layer norm, with one block per row; in backward, a block has several rows, and sums their shares
// of the gradients of weight and bias in shared memory.
// Not here: batch norm. Chapters 02 and 03; Ba, Kiros and Hinton 2016, eq. 3.
#include "cuda/backend/kernel_types.h"
#include "cuda/launch/block_sums.h"

namespace paragrad::cuda {

namespace {

constexpr int block_rows = 16;  // rows per backward block, so that rows / 16 shares are left to add

/// This thread's part of a row that is read repeatedly: kept if `Fits`, otherwise loaded again.
template <int N, bool Fits, class T>
class Row {
 public:
  __device__ Row(const T* row, std::int64_t width) : row_(row) {
    if constexpr (Fits)
      for_each(width, [&](std::int64_t c, int k) { packs_[k] = load<Pack<T, N>>(row + c); });
  }
  /// This thread's pack k, which begins at column c.
  __device__ Pack<T, N> at(std::int64_t c, int k) const {
    if constexpr (Fits)
      return packs_[k];
    else
      return load<Pack<T, N>>(row_ + c);
  }
  /// Calls body(c, k) for each pack of this thread.
  template <class Body>
  static __device__ void for_each(std::int64_t width, Body body) {
    if constexpr (Fits) {
      PG_UNROLL
      for (int k = 0; k < row_elements / N; ++k) {
        const std::int64_t c = (std::int64_t{blockDim.x} * k + threadIdx.x) * N;
        if (c < width) body(c, k);
      }
    } else {
      for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < width; c += blockDim.x * N)
        body(c, 0);
    }
  }

 private:
  const T* row_;
  Pack<T, N> packs_[Fits ? row_elements / N : 1];
};

template <int N, bool Fits, class T>
__global__ void __launch_bounds__(most_row_threads)
    layer_norm_kernel(std::int64_t width, const T* x, const T* weight, const T* bias, float epsilon,
                      T* y, float* mean, float* inverse) {
  const Row<N, Fits, T> row(x + blockIdx.x * width, width);
  float sum = 0, squares = 0;
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    for (int j = 0; j < N; ++j) sum += to_float(p.at[j]);
  });
  const float average = block_sum(sum) / width;
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    for (int j = 0; j < N; ++j)
      squares += (to_float(p.at[j]) - average) * (to_float(p.at[j]) - average);
  });
  const float scale = 1 / sqrtf(block_sum(squares) / width + epsilon);
  row.for_each(width, [&](std::int64_t c, int k) {
    const auto p = row.at(c, k);
    const auto w = load<Pack<T, N>>(weight + c), b = load<Pack<T, N>>(bias + c);
    store(y + blockIdx.x * width + c, pack<T, N>([&](int j) {
            const float normalised = (to_float(p.at[j]) - average) * scale;
            return normalised * to_float(w.at[j]) + to_float(b.at[j]);
          }));
  });
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = average;
    inverse[blockIdx.x] = scale;
  }
}

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

/// shares[0,block] and shares[1,block]: sums over the block's rows of dy n, and of dy. In shared
/// memory, element j of pack p is at j (packs) + p, so that neighbours differ in bank.
template <int N, bool Fits, class T>
__global__ void __launch_bounds__(most_row_threads)
    layer_norm_backward_kernel(std::int64_t rows, std::int64_t width, const T* x, const T* weight,
                               const float* mean, const float* inverse, const T* dy, T* dx,
                               float* shares) {
  float *dweight = dynamic_shared<float>(), *dbias = dweight + width;
  const std::int64_t packs = width / N, first = std::int64_t{blockIdx.x} * block_rows;
  for (std::int64_t r = first; r < min(first + block_rows, rows); ++r) {
    const Row<N, Fits, T> row(x + r * width, width), gradient(dy + r * width, width);
    const float average = mean[r], scale = inverse[r];
    float sum = 0, dot = 0;
    row.for_each(width, [&](std::int64_t c, int k) {
      const Normalised<N> at(row.at(c, k), weight + c, gradient.at(c, k), average, scale);
      for (int j = 0; j < N; ++j) {
        const std::int64_t place = j * packs + c / N;  // only this thread uses it
        sum += at.dn[j];
        dot += at.dn[j] * at.n[j];
        dweight[place] = (r == first ? 0 : dweight[place]) + at.dy[j] * at.n[j];
        dbias[place] = (r == first ? 0 : dbias[place]) + at.dy[j];
      }
    });
    sum = block_sum(sum) / width;
    dot = block_sum(dot) / width;
    row.for_each(width, [&](std::int64_t c, int k) {
      const Normalised<N> at(row.at(c, k), weight + c, gradient.at(c, k), average, scale);
      store(dx + r * width + c,
            pack<T, N>([&](int j) { return (at.dn[j] - sum - at.n[j] * dot) * scale; }));
    });
  }
  float *weight_share = shares + blockIdx.x * width, *bias_share = weight_share + gridDim.x * width;
  for_packs<N>(weight, width, [&](std::int64_t c, const Pack<T, N>&) {
    for (int j = 0; j < N; ++j) {
      weight_share[c + j] = dweight[j * packs + c / N];
      bias_share[c + j] = dbias[j * packs + c / N];
    }
  });
}

/// Calls dispatch_packs, and also chooses `Fits` (see Row).
template <class Kernel>
void dispatch_row(std::int64_t width,
                  std::initializer_list<std::reference_wrapper<const Tensor>> tensors,
                  Kernel&& kernel) {
  const bool fits = width <= row_elements * most_row_threads;
  dispatch_packs(width, tensors, [&]<class T, int N>() {
    fits ? kernel.template operator()<T, N, true>() : kernel.template operator()<T, N, false>();
  });
}

}  // namespace

void CudaBackend::layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean,
                             Out inverse) {
  dispatch_row(x.size(1), {x, weight, bias, y}, [&]<class T, int N, bool Fits>() {
    run(layer_norm_kernel<N, Fits, T>, block_for_rows(x), x.size(1), x, weight, bias, epsilon, y,
        mean, inverse);
  });
}

void CudaBackend::layer_norm_backward(In x, In weight, In mean, In inverse, In dy, Out dx,
                                      Out dweight, Out dbias) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const unsigned blocks = blocks_for(rows, block_rows);
  const Tensor shares = workspace({2, blocks, width}, DType::f32, x.device());
  dispatch_row(width, {x, weight, dy, dx}, [&]<class T, int N, bool Fits>() {
    run(layer_norm_backward_kernel<N, Fits, T>,
        {blocks, row_threads(width), 2 * width * sizeof(float)}, rows, width, x, weight, mean,
        inverse, dy, dx, shares);
  });
  const autograd::Shape share{blocks, width}, row{1, width};
  reduce(Reduction::sum, shares.window(0, share), dweight.window(0, row));
  reduce(Reduction::sum, shares.window(blocks * width, share), dbias.window(0, row));
}

}  // namespace paragrad::cuda
