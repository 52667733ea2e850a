// Optimizer steps, one pass over a flat buffer each.
// Not here: schedules and which parameters decay (nn/optimizers/optimizer.h).
// Chapter 02.
#include <cmath>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

constexpr int threads = 256, together = 4;  // elements of a thread: 16 bytes of f32

/// Constants of a step, and its N elements from i on. `weights` is null where it is the master.
// m <- momentum m + g,  w <- w - rate m,  with g the scaled gradient plus decay w.
struct Sgd {
  float rate, momentum, decay, scale;
  const float* gradient;
  float *moment, *master;

  template <int N>
  __device__ Pack<float, N> step(std::int64_t i) const {
    const auto g = load<Pack<float, N>>(gradient + i);
    auto m = load<Pack<float, N>>(moment + i), w = load<Pack<float, N>>(master + i);
    PG_UNROLL
    for (int j = 0; j < N; ++j) {
      m.at[j] = momentum * m.at[j] + (scale * g.at[j] + decay * w.at[j]);
      w.at[j] = w.at[j] - rate * m.at[j];
    }
    store(moment + i, m);
    return w;
  }
};

// m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
// w <- shrink w - rate m / (sqrt(v) correction + epsilon)
struct AdamW {
  float beta1, beta2, epsilon, scale, shrink, rate, correction;
  const float* gradient;
  float *first, *second, *master;

  template <int N>
  __device__ Pack<float, N> step(std::int64_t i) const {
    const auto g = load<Pack<float, N>>(gradient + i);
    auto m = load<Pack<float, N>>(first + i), v = load<Pack<float, N>>(second + i);
    auto w = load<Pack<float, N>>(master + i);
    PG_UNROLL
    for (int j = 0; j < N; ++j) {
      const float d = scale * g.at[j];
      m.at[j] = beta1 * m.at[j] + (1 - beta1) * d;
      v.at[j] = beta2 * v.at[j] + (1 - beta2) * d * d;
      w.at[j] = shrink * w.at[j] - rate * m.at[j] / (sqrtf(v.at[j]) * correction + epsilon);
    }
    store(first + i, m);
    store(second + i, v);
    return w;
  }
};

template <int N, class Step, class W>
__device__ void update(const Step& step, std::int64_t i, W* weights) {
  const Pack<float, N> w = step.template step<N>(i);
  store(step.master + i, w);
  if (!weights) return;
  store(weights + i, pack<W, N>([&](int j) { return w.at[j]; }));
}

template <int N, class Step, class W>
__global__ void __launch_bounds__(threads)
    update_kernel(std::int64_t count, Step step, W* weights) {
  const std::int64_t start = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * N;
  if (start + N <= count)
    update<N>(step, start, weights);
  else
    for (std::int64_t i = start; i < count; ++i) update<1>(step, i, weights);
}

/// `packed`: whether all addresses in `step` are multiples of 16.
template <class Step>
void run_update(const CudaBackend& backend, const Step& step, bool packed, const Tensor& master,
                const Tensor& weights) {
  dispatch(weights, [&]<class W>() {
    W* rounded = weights.raw() == master.raw() ? nullptr : weights.data<W>();
    const bool together_now = packed && aligned<together>(rounded);
    const int n = together_now ? together : 1;
    backend.run(together_now ? update_kernel<together, Step, W> : update_kernel<1, Step, W>,
                dim3(blocks_for(master.numel(), n * threads)), dim3(threads), master.numel(), step,
                rounded);
  });
}

template <class... Address>
bool all_aligned(const Address*... address) {
  return (aligned<together>(address) && ...);
}

}  // namespace

void CudaBackend::sgd(const SgdStep& step, In gradient, Out momentum, Out master, Out weights) {
  refuse_f64(master);
  const Sgd sgd{float(step.learning_rate),  float(step.momentum),   float(step.weight_decay),
                float(step.gradient_scale), gradient.data<float>(), momentum.data<float>(),
                master.data<float>()};
  run_update(*this, sgd, all_aligned(sgd.gradient, sgd.moment, sgd.master), master, weights);
}

void CudaBackend::adamw(const AdamWStep& step, In gradient, Out first_moment, Out second_moment,
                        Out master, Out weights) {
  refuse_f64(master);
  const AdamW adamw{float(step.beta1),           float(step.beta2),      float(step.epsilon),
                    float(step.gradient_scale),  float(step.shrink()),   float(step.rate()),
                    float(step.correction()),    gradient.data<float>(), first_moment.data<float>(),
                    second_moment.data<float>(), master.data<float>()};
  run_update(*this, adamw, all_aligned(adamw.gradient, adamw.first, adamw.second, adamw.master),
             master, weights);
}

}  // namespace paragrad::cuda
