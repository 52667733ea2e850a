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
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void copy(In x, Out y) override;
  void fill(double value, Out y) override;
  void fill_normal(RandomKey key, double mean, double deviation, Out y) override;
  void fill_uniform(RandomKey key, double low, double high, Out y) override;
  void copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y, Rows to) override;
  void permute(In x, const std::vector<int>& order, Out y) override;
  void gather(In x, In index, bool add, Out y) override;
  void expand(In x, In index, Out y) override;
  void unary(Unary op, In x, Out y) override;
  void unary_backward(Unary op, In x, In y, In dy, Out dx) override;
  void binary(Binary op, In a, In b, Out y) override;
  void affine(In x, double scale, double shift, Out y) override;
  void accumulate(In x, Out y) override;
  void dropout(In x, double p, RandomKey key, Out y) override;
  void bias_gelu(In x, In bias, Out y) override;
  void bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) override;
  void reduce(Reduction op, In x, Out y) override;
  void max_backward(In x, In y, In dy, Out dx) override;
  double sum_of_squares(In x) override;
  void gemm(Gemm how, In a, In b, In bias, Out c) override;
  void spmm(const SparsePattern& pattern, In values, Vectors how, In b, In bias, Out c) override;
  void sddmm(const SparsePattern& pattern, Vectors how, In d, In b, Out values) override;
  void softmax(In x, Out y) override;
  void softmax_backward(In y, In dy, Out dx) override;
  void layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean, Out inverse) override;
  void layer_norm_backward(In x, In weight, In mean, In inverse, In dy, Out dx, Out dweight,
                           Out dbias) override;
  void cross_entropy(In logits, In targets, Out loss, Out normalizer) override;
  void cross_entropy_backward(In logits, In targets, In normalizer, In dloss, double scale,
                              Out dlogits) override;
  void embedding(In table, In ids, Out y) override;
  void embedding_backward(In ids, In dy, Out dtable) override;
  void attention(In qkv, int heads, Out y, Out normalizer) override;
  void attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) override;
  void conv2d(In x, In weight, Window window, Out y) override;
  void conv2d_backward_input(In dy, In weight, Window window, Out dx) override;
  void conv2d_backward_weight(In x, In dy, Window window, Out dweight) override;
  void max_pool2d(In x, Window window, Out y, Out index) override;
  void max_pool2d_backward(In dy, In index, Out dx) override;
  void average_pool2d(In x, Window window, Out y) override;
  void average_pool2d_backward(In dy, Window window, Out dx) override;
  void batch_norm_statistics(In x, Out mean, Out variance) override;
  void batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon,
                        Out y) override;
  void batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy, Out dx,
                           Out dweight, Out dbias) override;
  bool quantize(In x, Quantizer how, RandomKey key, Out bytes) override;
  void dequantize(In bytes, Quantizer how, Out y) override;
  Magnitude magnitude(In x, std::int64_t k) override;
  Selected select(In x, Selection which, Out bytes) override;
  void collect(In x, Out bytes) override;
  void scatter(In bytes, Out y) override;
  void sgd(const SgdStep& step, In gradient, Out momentum, Out master, Out weights) override;
  void adamw(const AdamWStep& step, In gradient, Out first_moment, Out second_moment, Out master,
             Out weights) override;

 private:
  struct Blocks;
  std::unique_ptr<Blocks> blocks_;
};

/// A device of its own that computes on the host.
DevicePtr cpu_device();

}  // namespace paragrad::autograd
