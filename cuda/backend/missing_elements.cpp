// Kernels on elements and rows that are not written yet.
// Not here: those that are (the other files of this folder).
// Chapter 03.
#include "cuda/cuda_backend.h"

namespace paragrad::cuda {

namespace {

[[noreturn]] void missing(const char* kernel) {
  throw autograd::Error(autograd::text("cuda: ", kernel, " is not there yet"));
}

}  // namespace

void CudaBackend::copy(const Tensor&, const Tensor&) { missing("copy"); }
void CudaBackend::fill(double, const Tensor&) { missing("fill"); }
void CudaBackend::fill_normal(RandomKey, double, double, const Tensor&) { missing("fill_normal"); }
void CudaBackend::fill_uniform(RandomKey, double, double, const Tensor&) {
  missing("fill_uniform");
}
void CudaBackend::copy_rows(const Tensor&, Rows, std::int64_t, std::int64_t, const Tensor&, Rows) {
  missing("copy_rows");
}
void CudaBackend::permute(const Tensor&, const std::vector<int>&, const Tensor&) {
  missing("permute");
}
void CudaBackend::gather(const Tensor&, const Tensor&, bool, const Tensor&) { missing("gather"); }
void CudaBackend::expand(const Tensor&, const Tensor&, const Tensor&) { missing("expand"); }
void CudaBackend::unary(Unary, const Tensor&, const Tensor&) { missing("unary"); }
void CudaBackend::unary_backward(Unary, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&) {
  missing("unary_backward");
}
void CudaBackend::binary(Binary, const Tensor&, const Tensor&, const Tensor&) { missing("binary"); }
void CudaBackend::affine(const Tensor&, double, double, const Tensor&) { missing("affine"); }
void CudaBackend::accumulate(const Tensor&, const Tensor&) { missing("accumulate"); }
void CudaBackend::dropout(const Tensor&, double, RandomKey, const Tensor&) { missing("dropout"); }
void CudaBackend::bias_gelu(const Tensor&, const Tensor&, const Tensor&) { missing("bias_gelu"); }
void CudaBackend::bias_gelu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&) {
  missing("bias_gelu_backward");
}
void CudaBackend::reduce(Reduction, const Tensor&, const Tensor&) { missing("reduce"); }
void CudaBackend::max_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  missing("max_backward");
}
double CudaBackend::sum_of_squares(const Tensor&) { missing("sum_of_squares"); }
void CudaBackend::softmax(const Tensor&, const Tensor&) { missing("softmax"); }
void CudaBackend::softmax_backward(const Tensor&, const Tensor&, const Tensor&) {
  missing("softmax_backward");
}
void CudaBackend::layer_norm(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&,
                             const Tensor&, const Tensor&) {
  missing("layer_norm");
}
void CudaBackend::layer_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                      const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  missing("layer_norm_backward");
}
void CudaBackend::cross_entropy(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  missing("cross_entropy");
}
void CudaBackend::cross_entropy_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         double, const Tensor&) {
  missing("cross_entropy_backward");
}
void CudaBackend::embedding(const Tensor&, const Tensor&, const Tensor&) { missing("embedding"); }
void CudaBackend::embedding_backward(const Tensor&, const Tensor&, const Tensor&) {
  missing("embedding_backward");
}
void CudaBackend::sgd(const SgdStep&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  missing("sgd");
}
void CudaBackend::adamw(const AdamWStep&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&, const Tensor&) {
  missing("adamw");
}

}  // namespace paragrad::cuda
