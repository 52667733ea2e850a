// Layer norm of a matrix's rows, or of the rows of its sum with another matrix.
// Not here: batch norm, the gradient (layer_norm_backward.cu).
// Chapters 02 and 03; Ba, Kiros and Hinton 2016, eq. 3.
#include "cuda/backend/layer_norm.h"

namespace plangrad::cuda {

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

void CudaBackend::layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean,
                             Out inverse) {
  add_layer_norm(x, {}, weight, bias, epsilon, {}, y, mean, inverse);
}

void CudaBackend::add_layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y,
                                 Out mean, Out inverse) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const Tensor &other = a.defined() ? a : x, &target = a.defined() ? sum : y;
  dispatch_row(width, {x, other, weight, bias, target, y}, [&]<class T, int N, int E>(dim3 block) {
    run(layer_norm_kernel<N, E, T>, {blocks_for(rows, block.y), block}, rows, width, x,
        a.defined() ? a.data<T>() : nullptr, weight, bias, epsilon, target, y, mean, inverse);
  });
}

}  // namespace plangrad::cuda
