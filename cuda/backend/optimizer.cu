// Optimizer steps: one launch for all segments of flat buffers.
// Not here: schedules and which parameters decay (nn/optimizers/optimizer.h). Chapter 02.
#include "cuda/backend/map.h"

namespace plangrad::cuda {
namespace {

// Products are added by fmaf, so that packs and single elements have the same bits: left alone, the
// compiler fuses one of two products in the one case, and the other one in the other.

// m <- momentum m + g,  w <- w - rate m,  with g the scaled gradient plus decay w.
struct Sgd {
  float momentum, decay;
  /// The numbers that differ from update to update.
  struct Update {
    float rate, scale;
  };

  __device__ void operator()(const Update& now, bool decays, float gradient, float& w,
                             float& m) const {
    m = fmaf(momentum, m, fmaf(decays ? decay : 0, w, now.scale * gradient));
    w = fmaf(-now.rate, m, w);
  }
};

// m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
// w <- shrink w - rate m / (sqrt(v) correction + epsilon)
struct AdamW {
  float beta1, beta2, epsilon;
  /// The numbers that differ from update to update.
  struct Update {
    float scale, shrink, rate, correction;
  };

  __device__ void operator()(const Update& now, bool decays, float gradient, float& w, float& m,
                             float& v) const {
    const float d = now.scale * gradient;
    m = fmaf(beta1, m, (1 - beta1) * d);
    v = fmaf(beta2, v, (1 - beta2) * d * d);
    const float step = now.rate * m / fmaf(sqrtf(v), now.correction, epsilon);
    w = fmaf(decays ? now.shrink : 1, w, -step);
  }
};

constexpr int step_threads = 256, step_pack = 4;         // elements: 16 bytes of f32
constexpr int step_part = 4 * step_pack * step_threads;  // elements of a block

/// Steps N elements from i on. `weights` is null if the master is the weights.
template <int N, class Step, class W, class... Moment>
__device__ void update(std::int64_t i, bool decays, const Step& step,
                       const typename Step::Update& now, const float* gradient, float* master,
                       W* weights, Moment*... moments) {
  using Floats = Pack<float, N>;
  const auto g = load<Floats>(gradient + i);
  auto w = load<Floats>(master + i);
  [&](auto... moment) {
    PG_UNROLL
    for (int j = 0; j < N; ++j) step(now, decays, g.at[j], w.at[j], moment.at[j]...);
    (store(moments + i, moment), ...);
  }(load<Floats>(moments + i)...);
  store(master + i, w);
  if (weights) store(weights + i, pack<W, N>([&](int j) { return w.at[j]; }));
}

/// The first element of a segment's blocks: a whole number of packs from the buffer's begin.
__host__ __device__ std::int64_t begin_of(const Segment& segment) {
  return segment.first / step_pack * step_pack;
}

/// A block steps `step_part` elements of a segment; `packed`: packs of all buffers can be loaded.
template <class Step, class W, class... Moment>
__global__ void __launch_bounds__(step_threads)
    update_kernel(const __grid_constant__ SegmentTable<Segment> table, bool packed, Step step,
                  PerLaunch<typename Step::Update> numbers, const float* gradient, float* master,
                  W* weights, Moment*... moments) {
  const typename Step::Update now = numbers.get();
  const int found = table.segment_of(blockIdx.x);
  const Segment& segment = table.at[found];
  const std::int64_t block = blockIdx.x - table.first_block[found];
  const std::int64_t begin = begin_of(segment) + block * step_part;
  const std::int64_t end = min(begin + step_part, segment.last);
  for (std::int64_t i = begin + threadIdx.x * step_pack; i < end; i += step_threads * step_pack)
    if (packed && i >= segment.first && i + step_pack <= end)
      update<step_pack>(i, segment.decays, step, now, gradient, master, weights, moments...);
    else
      for (std::int64_t j = max(i, segment.first); j < min(i + step_pack, end); ++j)
        update<1>(j, segment.decays, step, now, gradient, master, weights, moments...);
}

template <class Step, class... Moment>
void run_update(const CudaBackend& backend, const Step& step, const typename Step::Update& now,
                const Segments& segments, const Tensor& gradient, const Tensor& master,
                const Tensor& weights, Moment*... moments) {
  const float* g = gradient.data<float>();
  float* w = master.data<float>();
  auto blocks_of = [](const Segment& s) { return blocks_for(s.last - begin_of(s), step_part); };
  dispatch(weights, [&]<class W>() {
    W* rounded = weights.raw() == master.raw() ? nullptr : weights.data<W>();
    constexpr int n = step_pack;
    const bool packed =
        aligned<n>(g) && aligned<n>(w) && aligned<n>(rounded) && (aligned<n>(moments) && ...);
    for_tables(segments, blocks_of, [&](const auto& table) {
      backend.run(update_kernel<Step, W, Moment...>, {table.blocks, step_threads}, table, packed,
                  step, now, g, w, rounded, moments...);
    });
  });
}

}  // namespace

void CudaBackend::sgd(const SgdStep& step, const Segments& segments, In gradient, Out momentum,
                      Out master, Out weights) {
  refuse_f64(master);
  const Sgd sgd{float(step.momentum), float(step.weight_decay)};
  const Sgd::Update now{float(step.learning_rate), float(step.gradient_scale)};
  run_update(*this, sgd, now, segments, gradient, master, weights, momentum.data<float>());
}

void CudaBackend::adamw(const AdamWStep& step, const Segments& segments, In gradient,
                        Out first_moment, Out second_moment, Out master, Out weights) {
  refuse_f64(master);
  const AdamW adamw{float(step.beta1), float(step.beta2), float(step.epsilon)};
  const AdamW::Update now{float(step.gradient_scale), float(step.shrink()), float(step.rate()),
                          float(step.correction())};
  run_update(*this, adamw, now, segments, gradient, master, weights, first_moment.data<float>(),
             second_moment.data<float>());
}

}  // namespace plangrad::cuda
