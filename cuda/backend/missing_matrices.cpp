// Kernels on matrices, images and encoded values that are not written yet.
// Not here: those that are (the other files of this folder).
// Chapter 03.
#include "cuda/cuda_backend.h"

namespace paragrad::cuda {

namespace {

[[noreturn]] void missing(const char* kernel) {
  throw autograd::Error(autograd::text("cuda: ", kernel, " is not there yet"));
}

}  // namespace

void CudaBackend::spmm(const SparsePattern&, const Tensor&, Vectors, const Tensor&, const Tensor&,
                       const Tensor&) {
  missing("spmm");
}
void CudaBackend::sddmm(const SparsePattern&, Vectors, const Tensor&, const Tensor&,
                        const Tensor&) {
  missing("sddmm");
}
void CudaBackend::conv2d(const Tensor&, const Tensor&, Window, const Tensor&) { missing("conv2d"); }
void CudaBackend::conv2d_backward_input(const Tensor&, const Tensor&, Window, const Tensor&) {
  missing("conv2d_backward_input");
}
void CudaBackend::conv2d_backward_weight(const Tensor&, const Tensor&, Window, const Tensor&) {
  missing("conv2d_backward_weight");
}
void CudaBackend::max_pool2d(const Tensor&, Window, const Tensor&, const Tensor&) {
  missing("max_pool2d");
}
void CudaBackend::max_pool2d_backward(const Tensor&, const Tensor&, const Tensor&) {
  missing("max_pool2d_backward");
}
void CudaBackend::average_pool2d(const Tensor&, Window, const Tensor&) {
  missing("average_pool2d");
}
void CudaBackend::average_pool2d_backward(const Tensor&, Window, const Tensor&) {
  missing("average_pool2d_backward");
}
void CudaBackend::batch_norm_statistics(const Tensor&, const Tensor&, const Tensor&) {
  missing("batch_norm_statistics");
}
void CudaBackend::batch_norm_apply(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   const Tensor&, double, const Tensor&) {
  missing("batch_norm_apply");
}
void CudaBackend::batch_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                      double, const Tensor&, const Tensor&, const Tensor&,
                                      const Tensor&) {
  missing("batch_norm_backward");
}
bool CudaBackend::quantize(const Tensor&, Quantizer, RandomKey, const Tensor&) {
  missing("quantize");
}
void CudaBackend::dequantize(const Tensor&, Quantizer, const Tensor&) { missing("dequantize"); }
Magnitude CudaBackend::magnitude(const Tensor&, std::int64_t) { missing("magnitude"); }
Selected CudaBackend::select(const Tensor&, Selection, const Tensor&) { missing("select"); }
void CudaBackend::collect(const Tensor&, const Tensor&) { missing("collect"); }
void CudaBackend::scatter(const Tensor&, const Tensor&) { missing("scatter"); }

}  // namespace paragrad::cuda
