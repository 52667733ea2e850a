// Products of column-major matrices: their operands are checked, those that a GPU would load slowly
// are counted, and each runs by oneDNN or a plain loop on the host thread that waits for it.
// Not here: the calls that ask for them (cublas_lt.cpp); speed.
// cuBLAS library reference, gemm; tensor core usage.
#include "cuda/emulator/product.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/runtime.h"

#if PLANGRAD_ONEDNN
#include <dnnl.h>
#endif

namespace plangrad::cuda::emulator {

namespace {

/// c = alpha op(a) op(b)
void multiply(const Product& p, const float* a, const float* b, float* c) {
#if PLANGRAD_ONEDNN
  // oneDNN is row-major: for it, this is c^T = op(b)^T op(a)^T.
  dnnl_status_t status = dnnl_sgemm(p.b.transposed ? 'T' : 'N', p.a.transposed ? 'T' : 'N', p.n,
                                    p.m, p.k, p.alpha, b, p.b.ld, a, p.a.ld, 0, c, p.c.ld);
  PG_CHECK(status == dnnl_success, "gemm: oneDNN refused with status ", status);
#else
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      float sum = 0;
      for (int l = 0; l < p.k; ++l)
        sum += a[p.a.transposed ? l + std::size_t(i) * p.a.ld : i + std::size_t(l) * p.a.ld] *
               b[p.b.transposed ? j + std::size_t(l) * p.b.ld : l + std::size_t(j) * p.b.ld];
      c[i + std::size_t(j) * p.c.ld] = p.alpha * sum;
    }
#endif
}

/// To the nearest number with 10 bits of mantissa; halfway, away from zero.
float rounded_to_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000) & ~0x1fffu) : x;
}

/// A matrix in f32: itself, or widened or rounded into `copy`.
float* widen(const Matrices& x, int i, bool tf32, std::vector<float>& copy) {
  if (x.type == CUDA_R_32F) {
    auto* wide = static_cast<float*>(x.at(i));
    if (!tf32) return wide;
    copy.resize(x.span());
    std::transform(wide, wide + copy.size(), copy.begin(), rounded_to_tf32);
    return copy.data();
  }
  auto* narrow = static_cast<const __nv_bfloat16*>(x.at(i));
  copy.resize(x.span());
  std::transform(narrow, narrow + copy.size(), copy.begin(), __bfloat162float);
  return copy.data();
}

void note_columns(const Matrices& x, int batch, Use use) {
  for (int i = 0; observer && i < batch; ++i)
    for (int j = 0; j < x.columns; ++j)
      note(static_cast<std::byte*>(x.at(i)) + j * std::size_t(x.ld) * x.element_bytes(),
           x.rows * x.element_bytes(), use);
}

float number(float x) { return x; }
float number(__nv_bfloat16 x) { return __bfloat162float(x); }
void assign(float& x, float value) { x = value; }
void assign(__nv_bfloat16& x, float value) { x = __float2bfloat16(value); }

/// Adds what was there and the bias to complete sums, and rounds once.
template <class T>
void store(const Product& p, const std::vector<float>& sum, T* c) {
  const T* bias = static_cast<const T*>(p.bias.data);
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      const std::size_t at = i + std::size_t(j) * p.c.ld;
      float value = sum[at];
      if (p.beta != 0) value += p.beta * number(c[at]);
      if (p.bias.rows > 0) value += number(bias[i]);
      assign(c[at], value);
    }
}

/// Calls f with float or bf16.
template <class F>
void with_type(cudaDataType_t type, F f) {
  type == CUDA_R_32F ? f(float()) : f(__nv_bfloat16());
}

void carry_out(const Product& p) {
  note_columns(p.a, p.batch, reading);
  note_columns(p.b, p.batch, reading);
  note_columns(p.c, p.batch, {.reads = p.beta != 0, .writes = true});
  if (observer) observer->multiplied(2.0 * p.m * p.n * p.k * p.batch);
  note_columns(p.bias, 1, reading);
  std::vector<float> a, b, sum(p.c.span());
  for (int i = 0; i < p.batch; ++i) {
    multiply(p, widen(p.a, i, p.tf32, a), widen(p.b, i, p.tf32, b), sum.data());
    with_type(p.c.type, [&]<class T>(T) { store(p, sum, static_cast<T*>(p.c.at(i))); });
  }
}

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
  for (const Matrices* x : {&p.a, &p.b, &p.c}) {
    if (x->ld < std::max(1, x->rows)) return CUBLAS_STATUS_INVALID_VALUE;
    if (x->type != CUDA_R_32F && x->type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (p.a.type != p.b.type || ((p.a.type == CUDA_R_32F || p.tf32) && p.c.type != CUDA_R_32F))
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
  bool aligned = true;
  for (const Matrices* x : {&p.a, &p.b, &p.c, &p.bias}) {
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
