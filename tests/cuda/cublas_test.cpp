// cuBLAS of the emulator against products in f64.
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;

namespace {

struct Sizes {
  int m, n, k, batch;
  bool ta, tb;
  int extra;  ///< elements between the columns
  float alpha, beta;

  int rows_a() const { return ta ? k : m; }
  int rows_b() const { return tb ? n : k; }
  int lda() const { return rows_a() + extra; }
  int ldb() const { return std::max(rows_b() + extra, 1); }
  int ldc() const { return m + extra; }
  int size_a() const { return lda() * (ta ? m : k); }
  int size_b() const { return ldb() * (tb ? k : n); }
  int size_c() const { return ldc() * n; }
  cublasOperation_t op_a() const { return ta ? CUBLAS_OP_T : CUBLAS_OP_N; }
  cublasOperation_t op_b() const { return tb ? CUBLAS_OP_T : CUBLAS_OP_N; }
};

float round_bf16(float x) { return __bfloat162float(__float2bfloat16(x)); }

std::vector<float> numbers(int count, int seed, bool bf16) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) {
    float x = std::sin(float(seed + i * 7 % 1009));
    result[i] = bf16 ? round_bf16(x) : x;
  }
  return result;
}

/// Element (i,j) of C for batch b, and the sum of the magnitudes that it is made of.
std::pair<double, double> expected(const Sizes& s, const std::vector<float>& a,
                                   const std::vector<float>& b, const std::vector<float>& c,
                                   int batch, int i, int j) {
  double sum = 0, magnitude = 0;
  for (int l = 0; l < s.k; ++l) {
    double x = a[batch * s.size_a() + (s.ta ? l + i * s.lda() : i + l * s.lda())];
    double y = b[batch * s.size_b() + (s.tb ? j + l * s.ldb() : l + j * s.ldb())];
    sum += s.alpha * x * y;
    magnitude += std::abs(s.alpha * x * y);
  }
  double before = s.beta == 0 ? 0 : s.beta * double(c[batch * s.size_c() + i + j * s.ldc()]);
  return {sum + before, magnitude + std::abs(before)};
}

/// A sum of k products in f32, in any order, is off by at most about k roundings of the magnitudes'
/// sum (Higham 2002, section 3.1); what is rounded to bf16 in the end, by half of 2^-7 of itself.
void check_result(const Sizes& s, const std::vector<float>& a, const std::vector<float>& b,
                  const std::vector<float>& before, const std::vector<float>& got, bool bf16) {
  for (int batch = 0; batch < s.batch; ++batch)
    for (int j = 0; j < s.n; ++j)
      for (int i = 0; i < s.m; ++i) {
        auto [value, magnitude] = expected(s, a, b, before, batch, i, j);
        double bound = (s.k + 3) * std::ldexp(magnitude, -24);
        if (bf16) bound += std::ldexp(std::abs(value) + bound, -8);
        REQUIRE(std::abs(got[batch * s.size_c() + i + j * s.ldc()] - value) <= bound);
      }
}

std::vector<__nv_bfloat16> narrow(const std::vector<float>& x) {
  std::vector<__nv_bfloat16> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), __float2bfloat16);
  return result;
}

std::vector<float> widen(const std::vector<__nv_bfloat16>& x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), __bfloat162float);
  return result;
}

struct Handle {
  cublasHandle_t handle;
  Handle() { cublasCreate(&handle); }
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }
};

const Sizes all_sizes[] = {
    {1, 1, 1, 1, false, false, 0, 1, 0},    {5, 7, 3, 1, false, false, 0, 1, 0},
    {5, 7, 3, 1, true, false, 2, 1, 0},     {5, 7, 3, 1, false, true, 2, 2, 1},
    {5, 7, 3, 2, true, true, 1, -1, 0.5f},  {33, 17, 70, 3, false, false, 0, 1, 1},
    {65, 130, 40, 1, true, false, 3, 1, 0}, {4, 4, 0, 1, false, false, 0, 1, 0.5f},
};

}  // namespace

TEST_CASE("f32 products of every form") {
  Machine machine;
  Handle handle;
  for (const Sizes& s : all_sizes) {
    std::vector<float> a = numbers(s.size_a() * s.batch, 1, false);
    std::vector<float> b = numbers(s.size_b() * s.batch, 2, false);
    std::vector<float> before = numbers(s.size_c() * s.batch, 3, false);
    if (s.beta == 0) before.assign(before.size(), NAN);  // must not be read
    DeviceArray<float> da(a), db(b), dc(before);
    REQUIRE(cublasSgemmStridedBatched(handle, s.op_a(), s.op_b(), s.m, s.n, s.k, &s.alpha, da,
                                      s.lda(), s.size_a(), db, s.ldb(), s.size_b(), &s.beta, dc,
                                      s.ldc(), s.size_c(), s.batch) == CUBLAS_STATUS_SUCCESS);
    std::vector<float> got = dc.values();
    check_result(s, a, b, before, got, false);
    for (int between = s.m; between < s.ldc(); ++between)
      REQUIRE((got[between] == before[between] || std::isnan(before[between])));
  }
}

TEST_CASE("bf16 products with results in bf16 and f32") {
  Machine machine;
  Handle handle;
  for (const Sizes& s : all_sizes) {
    if (s.batch > 1) continue;
    std::vector<float> a = numbers(s.size_a(), 1, true), b = numbers(s.size_b(), 2, true);
    std::vector<float> before = numbers(s.size_c(), 3, true);
    DeviceArray<__nv_bfloat16> da(narrow(a)), db(narrow(b)), narrow_c(narrow(before));
    DeviceArray<float> wide_c(before);
    auto multiply = [&](void* c, cudaDataType_t type) {
      return cublasGemmEx(handle, s.op_a(), s.op_b(), s.m, s.n, s.k, &s.alpha, da, CUDA_R_16BF,
                          s.lda(), db, CUDA_R_16BF, s.ldb(), &s.beta, c, type, s.ldc(),
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    REQUIRE(multiply(narrow_c, CUDA_R_16BF) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(multiply(wide_c, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    check_result(s, a, b, before, widen(narrow_c.values()), true);
    check_result(s, a, b, before, wide_c.values(), false);
  }
}

TEST_CASE("products are queued in the handle's stream") {
  Machine machine({.schedule = QueueSchedule::lazy});
  Handle handle;
  cudaStream_t stream;
  PG_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cublasSetStream(handle, stream);
  DeviceArray<float> a(std::vector<float>{3}), c(std::vector<float>{1});
  float one = 1, zero = 0;  // read at the call
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &zero, c, 1);
  one = 5;
  CHECK(c.values()[0] == 1);
  PG_CUDA(cudaStreamSynchronize(stream));
  CHECK(c.values()[0] == 9);
  cudaStreamDestroy(stream);
}

TEST_CASE("products that cannot be are refused, by code or by report") {
  Machine machine(faulty());
  Handle handle;
  DeviceArray<float> x(16);
  cudaSetDevice(1);
  DeviceArray<float> elsewhere(16);
  cudaSetDevice(0);
  float one = 1, zero = 0;
  auto gemm = [&](const float* a, int lda, const float* b, float* c) {
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, lda, b, 4, &zero, c, 4);
  };
  CHECK(gemm(x, 3, x, x) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(gemm(x, 5, x, x) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_THAT(cuda::emulator::reset(), Contains("gemm: A needs 76 bytes of device 0"));
  CHECK(gemm(x, 4, elsewhere, x) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_THAT(cuda::emulator::reset(), Contains("gemm: B needs 64 bytes of device 0"));
  cudaSetDevice(1);
  CHECK(gemm(x, 4, x, x) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("products that a GPU can't load 16 bytes at a time are counted") {
  Machine machine;
  Handle handle;
  DeviceArray<__nv_bfloat16> a(400), b(400);
  DeviceArray<float> c(400);
  const float one = 1, zero = 0;
  // Whether the count grows: a (8,k) at `begin`, b (k,8) with rows or columns `ldb` apart.
  auto counts = [&](int begin, int k, int ldb, long long stride, int batch, int ldc = 8) {
    const std::int64_t before = cuda::emulator::misaligned_products();
    REQUIRE(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, k, &one, a + begin,
                                       CUDA_R_16BF, 8, stride, b, CUDA_R_16BF, ldb, stride, &zero,
                                       c, CUDA_R_32F, ldc, 100, batch, CUBLAS_COMPUTE_32F,
                                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    return cuda::emulator::misaligned_products() > before;
  };
  CHECK_FALSE(counts(0, 16, 16, 0, 1));
  CHECK_FALSE(counts(8, 9, 16, 128, 2));  // a sum of any length
  CHECK(counts(1, 16, 16, 0, 1));
  CHECK(counts(0, 9, 9, 0, 1));
  CHECK(counts(0, 8, 8, 100, 2));
  CHECK(counts(0, 8, 8, 0, 1, 9));
  CHECK_FALSE(counts(0, 8, 8, 100, 1));  // one matrix has no step to the next
  cudaDeviceSynchronize();
  cuda::emulator::configure({});
  CHECK(cuda::emulator::misaligned_products() == 0);
}
