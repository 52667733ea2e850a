// The bridge to oneDNN, the one library that knows the fastest product on each processor.
// Not here: its types, which stay in onednn.cpp.
// Chapter 03.
#pragma once

#include "autograd/backend.h"

namespace paragrad::autograd::cpu {

/// Computes Backend::gemm by oneDNN. False if it can't (built without it, f64, bf16 on a processor
/// without AVX-512) or if its sum would depend on the number of threads.
bool onednn_gemm(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
                 const Tensor& c);

}  // namespace paragrad::autograd::cpu
