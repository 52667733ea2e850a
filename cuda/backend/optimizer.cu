// Optimizer steps, each in one pass over a flat buffer.
// Not here: schedules and which parameters decay (nn/optimizers/optimizer.h).
// Chapter 02.
#include <cmath>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

// m <- momentum m + g,  w <- w - rate m,  with g the scaled gradient plus decay w.
struct Sgd {
  float rate, momentum, decay, scale;

  __device__ void operator()(float gradient, float& w, float& m) const {
    m = momentum * m + (scale * gradient + decay * w);
    w = w - rate * m;
  }
};

// m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
// w <- shrink w - rate m / (sqrt(v) correction + epsilon)
struct AdamW {
  float beta1, beta2, epsilon, scale, shrink, rate, correction;

  __device__ void operator()(float gradient, float& w, float& m, float& v) const {
    const float d = scale * gradient;
    m = beta1 * m + (1 - beta1) * d;
    v = beta2 * v + (1 - beta2) * d * d;
    w = shrink * w - rate * m / (sqrtf(v) * correction + epsilon);
  }
};

/// Steps N elements from i on. `weights` is null if the master is the weights.
template <int N, class Step, class W, class... Moment>
__device__ void update(std::int64_t i, const Step& step, const float* gradient, float* master,
                       W* weights, Moment*... moments) {
  using Floats = Pack<float, N>;
  const auto g = load<Floats>(gradient + i);
  auto w = load<Floats>(master + i);
  [&](auto... moment) {
    PG_UNROLL
    for (int j = 0; j < N; ++j) step(g.at[j], w.at[j], moment.at[j]...);
    (store(moments + i, moment), ...);
  }(load<Floats>(moments + i)...);
  store(master + i, w);
  if (weights) store(weights + i, pack<W, N>([&](int j) { return w.at[j]; }));
}

template <int N, class Step, class W, class... Moment>
__device__ void update_pack(std::int64_t i, std::int64_t count, Step step, const float* gradient,
                            float* master, W* weights, Moment*... moments) {
  if ((i + 1) * N <= count)
    update<N>(i * N, step, gradient, master, weights, moments...);
  else
    for (i *= N; i < count; ++i) update<1>(i, step, gradient, master, weights, moments...);
}

template <class Step, class... Moment>
void run_update(const CudaBackend& backend, const Step& step, const Tensor& gradient,
                const Tensor& master, const Tensor& weights, Moment*... moments) {
  constexpr int n = 4;  // elements per thread: 16 bytes of f32
  const float* g = gradient.data<float>();
  float* w = master.data<float>();
  const std::int64_t count = master.numel();
  dispatch(weights, [&]<class W>() {
    W* rounded = weights.raw() == master.raw() ? nullptr : weights.data<W>();
    if (aligned<n>(g) && aligned<n>(w) && aligned<n>(rounded) && (aligned<n>(moments) && ...))
      backend.run_each<update_pack<n, Step, W, Moment...>>(blocks_for(count, n), count, step, g, w,
                                                           rounded, moments...);
    else
      backend.run_each<update_pack<1, Step, W, Moment...>>(count, count, step, g, w, rounded,
                                                           moments...);
  });
}

}  // namespace

void CudaBackend::sgd(const SgdStep& step, In gradient, Out momentum, Out master, Out weights) {
  refuse_f64(master);
  const Sgd sgd{float(step.learning_rate), float(step.momentum), float(step.weight_decay),
                float(step.gradient_scale)};
  run_update(*this, sgd, gradient, master, weights, momentum.data<float>());
}

void CudaBackend::adamw(const AdamWStep& step, In gradient, Out first_moment, Out second_moment,
                        Out master, Out weights) {
  refuse_f64(master);
  const AdamW adamw{float(step.beta1),          float(step.beta2),    float(step.epsilon),
                    float(step.gradient_scale), float(step.shrink()), float(step.rate()),
                    float(step.correction())};
  run_update(*this, adamw, gradient, master, weights, first_moment.data<float>(),
             second_moment.data<float>());
}

}  // namespace paragrad::cuda
