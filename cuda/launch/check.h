// Errors of CUDA's libraries, thrown as paragrad's Error.
// Not here: what a kernel finds wrong while it runs; a later call returns that.
// CUDA Runtime API, error handling.
#pragma once

#include <cuda_runtime.h>

#include "autograd/error.h"

namespace paragrad::cuda {

/// Throws an Error that names the call, unless it has succeeded.
inline void check(cudaError_t error, const char* call) {
  PG_CHECK(error == cudaSuccess, call, ": ", cudaGetErrorString(error), " (",
           cudaGetErrorName(error), ")");
}

}  // namespace paragrad::cuda

#define PG_CUDA(call) ::paragrad::cuda::check(call, #call)
