// Softmax cross-entropy, by a block for each row: the forward pass keeps one number of it, from
// which the backward pass computes the probabilities again.
// Not here: the mean over rows (autograd/ops/rows.cpp). Chapter 02; Bishop 2006, eq. 4.109.
#include "cuda/backend/index_fault.h"
#include "cuda/backend/rows.h"
#include "cuda/backend/words.h"

namespace paragrad::cuda {

namespace {

template <int N, class T>
__global__ void __launch_bounds__(most_row_threads)
    cross_entropy_kernel(std::int64_t width, const T* logits, const int* targets, float* loss,
                         float* normalizer, IndexFault* fault) {
  const T* row = logits + blockIdx.x * width;
  const ExpSum exps = exp_sum<N>(row, width);
  if (threadIdx.x > 0) return;
  const float log_sum = exps.top + logf(exps.sum);
  const int target = targets[blockIdx.x];
  normalizer[blockIdx.x] = log_sum;
  if (inside(target, width, IndexUse::cross_entropy, fault))
    loss[blockIdx.x] = log_sum - to_float(row[target]);
}

template <int N, class T>
__global__ void __launch_bounds__(most_row_threads)
    cross_entropy_backward_kernel(std::int64_t width, const T* logits, const int* targets,
                                  const float* normalizer, const float* dloss, float scale,
                                  T* dlogits) {
  const std::int64_t start = blockIdx.x * width;
  const float d = *dloss * scale, log_sum = normalizer[blockIdx.x];
  const int target = targets[blockIdx.x];
  for_any_packs<N>(logits + start, width, [&]<int M>(std::int64_t c, const Pack<T, M>& x) {
    store(dlogits + start + c, pack<T, M>([&](int j) {
            return d * (expf(to_float(x.at[j]) - log_sum) - (c + j == target ? 1 : 0));
          }));
  });
}

}  // namespace

void CudaBackend::cross_entropy(In logits, In targets, Out loss, Out normalizer) {
  const std::int64_t width = logits.size(1);
  dispatch(logits, [&]<class T>() {
    run(cross_entropy_kernel<pack_size<T>, T>, dim3(logits.size(0)), row_threads(width), width,
        logits, targets, loss, normalizer, fault_);
  });
}

void CudaBackend::cross_entropy_backward(In logits, In targets, In normalizer, In dloss,
                                         double scale, Out dlogits) {
  const std::int64_t width = logits.size(1);
  dispatch(logits, [&]<class T>() {
    const bool packed = (address_of(logits.raw()) - address_of(dlogits.raw())) % 16 == 0;
    run(packed ? cross_entropy_backward_kernel<pack_size<T>, T>
               : cross_entropy_backward_kernel<1, T>,
        dim3(logits.size(0)), row_threads(width), width, logits, targets, normalizer, dloss,
        static_cast<float>(scale), dlogits);
  });
}

}  // namespace paragrad::cuda
