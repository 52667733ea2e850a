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
bool CudaBackend::quantize(const Tensor&, Quantizer, RandomKey, const Tensor&) {
  missing("quantize");
}
void CudaBackend::dequantize(const Tensor&, Quantizer, const Tensor&) { missing("dequantize"); }
Magnitude CudaBackend::magnitude(const Tensor&, std::int64_t) { missing("magnitude"); }
Selected CudaBackend::select(const Tensor&, Selection, const Tensor&) { missing("select"); }
void CudaBackend::collect(const Tensor&, const Tensor&) { missing("collect"); }
void CudaBackend::scatter(const Tensor&, const Tensor&) { missing("scatter"); }

}  // namespace paragrad::cuda
