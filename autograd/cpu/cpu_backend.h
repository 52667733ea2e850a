// CpuBackend: every kernel on the host's processor.
// Not here: the kernels, which are spread over the .cpp files of this folder by what they do.
// Chapter 03.
#pragma once

#include "autograd/backend.h"

namespace paragrad::autograd {

class CpuBackend : public Backend {
 public:
  CpuBackend();
  ~CpuBackend() override;

  const char* name() const override;
  void* allocate(std::int64_t bytes) override;
  void free(void* data, std::int64_t bytes) override;
  void copy_from_host(const void* source, const Tensor& y) override;
  void copy_to_host(const Tensor& x, void* target) override;
  void copy(const Tensor& x, const Tensor& y) override;
  void fill(double value, const Tensor& y) override;
  void fill_normal(RandomKey key, double mean, double deviation, const Tensor& y) override;
  void fill_uniform(RandomKey key, double low, double high, const Tensor& y) override;
  void copy_rows(const Tensor& x, Rows from, std::int64_t rows, std::int64_t width, const Tensor& y,
                 Rows to) override;
  void permute(const Tensor& x, const std::vector<int>& order, const Tensor& y) override;
  void gather(const Tensor& x, const Tensor& index, bool add, const Tensor& y) override;
  void expand(const Tensor& x, const Tensor& index, const Tensor& y) override;
  void unary(Unary op, const Tensor& x, const Tensor& y) override;
  void unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& dy,
                      const Tensor& dx) override;
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void affine(const Tensor& x, double scale, double shift, const Tensor& y) override;
  void accumulate(const Tensor& x, const Tensor& y) override;
  void dropout(const Tensor& x, double p, RandomKey key, const Tensor& y) override;
  void bias_gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override;
  void bias_gelu_backward(const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                          const Tensor& dbias) override;
  void reduce(Reduction op, const Tensor& x, const Tensor& y) override;
  void max_backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) override;
  double sum_of_squares(const Tensor& x) override;
  void gemm(Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Tensor& c) override;
  void spmm(const SparsePattern& pattern, const Tensor& values, Vectors how, const Tensor& b,
            const Tensor& bias, const Tensor& c) override;
  void sddmm(const SparsePattern& pattern, Vectors how, const Tensor& d, const Tensor& b,
             const Tensor& values) override;
  void softmax(const Tensor& x, const Tensor& y) override;
  void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override;
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  const Tensor& y, const Tensor& mean, const Tensor& inverse) override;
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inverse, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                     const Tensor& normalizer) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& normalizer,
                              const Tensor& dloss, double scale, const Tensor& dlogits) override;
  void embedding(const Tensor& table, const Tensor& ids, const Tensor& y) override;
  void embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable) override;
  void attention(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer) override;
  void attention_backward(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer,
                          const Tensor& dy, const Tensor& dqkv) override;
  void conv2d(const Tensor& x, const Tensor& weight, Window window, const Tensor& y) override;
  void conv2d_backward_input(const Tensor& dy, const Tensor& weight, Window window,
                             const Tensor& dx) override;
  void conv2d_backward_weight(const Tensor& x, const Tensor& dy, Window window,
                              const Tensor& dweight) override;
  void max_pool2d(const Tensor& x, Window window, const Tensor& y, const Tensor& index) override;
  void max_pool2d_backward(const Tensor& dy, const Tensor& index, const Tensor& dx) override;
  void average_pool2d(const Tensor& x, Window window, const Tensor& y) override;
  void average_pool2d_backward(const Tensor& dy, Window window, const Tensor& dx) override;
  void batch_norm_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) override;
  void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& variance,
                        const Tensor& weight, const Tensor& bias, double epsilon,
                        const Tensor& y) override;
  void batch_norm_backward(const Tensor& x, const Tensor& mean, const Tensor& variance,
                           const Tensor& weight, double epsilon, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override;
  bool quantize(const Tensor& x, Quantizer how, RandomKey key, const Tensor& bytes) override;
  void dequantize(const Tensor& bytes, Quantizer how, const Tensor& y) override;
  Magnitude magnitude(const Tensor& x, std::int64_t k) override;
  Selected select(const Tensor& x, Selection which, const Tensor& bytes) override;
  void collect(const Tensor& x, const Tensor& bytes) override;
  void scatter(const Tensor& bytes, const Tensor& y) override;
  void sgd(const SgdStep& step, const Tensor& gradient, const Tensor& momentum,
           const Tensor& master, const Tensor& weights) override;
  void adamw(const AdamWStep& step, const Tensor& gradient, const Tensor& first_moment,
             const Tensor& second_moment, const Tensor& master, const Tensor& weights) override;

 private:
  struct Blocks;
  std::unique_ptr<Blocks> blocks_;
};

/// A device of its own that computes on the host.
DevicePtr cpu_device();

}  // namespace paragrad::autograd
