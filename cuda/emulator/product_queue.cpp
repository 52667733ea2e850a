// Checks the operands of products, counts those that a GPU would load slowly, and queues products.
// Not here: the calls that ask for them (cublas.cpp), and the products themselves (product.cpp).
// cuBLAS library reference, gemm; tensor core usage.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "autograd/error.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/product.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime.h"

namespace plangrad::cuda::emulator {

namespace {

std::atomic<std::int64_t> misaligned = 0;

bool loads_16_bytes(const Matrices& x, int batch) {
  const std::size_t steps[] = {reinterpret_cast<std::uintptr_t>(x.data),
                               x.columns > 1 ? x.ld * x.element_bytes() : 0,
                               batch > 1 ? x.stride * x.element_bytes() : 0};
  return std::ranges::all_of(steps, [](std::size_t bytes) { return bytes % 16 == 0; });
}

/// Describes the error of an operand's address; "" if there is none.
std::string fault_of(const Matrices& x, int batch, int device) {
  std::size_t bytes = (x.stride * (batch - 1) + x.span()) * x.element_bytes();
  std::optional<Allocation> found = find_allocation(x.data);
  if (found && found->device == device &&
      static_cast<std::byte*>(x.data) + bytes <= found->start + found->bytes)
    return "";
  return autograd::text("gemm: ", x.name, " needs ", bytes, " bytes of device ", device,
                        ", and is at ", describe_address(x.data));
}

cublasStatus_t check_sizes(const Product& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Matrices* x : {&p.a, &p.b, &p.c}) {
    if (x->ld < std::max(1, x->rows)) return CUBLAS_STATUS_INVALID_VALUE;
    if (x->type != CUDA_R_32F && x->type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (p.a.type != p.b.type || (p.a.type == CUDA_R_32F && p.c.type != CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::int64_t misaligned_products() { return misaligned; }
void count_products_anew() { misaligned = 0; }

cublasStatus_t queue_product(cudaStream_t handle, const Product& p) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream || stream->device != current_device()) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check_sizes(p)) return status;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return CUBLAS_STATUS_SUCCESS;
  bool aligned = true;
  for (const Matrices* x : {&p.a, &p.b, &p.c, &p.bias}) {
    if (p.k == 0 && x != &p.c) continue;
    if (x == &p.bias && p.bias.rows == 0) continue;
    if (x != &p.bias) aligned &= loads_16_bytes(*x, p.batch);
    std::string fault = fault_of(*x, x == &p.bias ? 1 : p.batch, stream->device);
    if (fault.empty()) continue;
    report(fault);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (finish(cudaSuccess) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  misaligned += !aligned;
  // The counters of a split sum's parts are set to zero before.
  if (p.split) enqueue(stream, {"memset", [] {}, {}});
  enqueue(stream, {"gemm", [p] { carry_out(p); }, {}});
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace plangrad::cuda::emulator
