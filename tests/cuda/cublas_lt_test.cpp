// cublasLt of the emulator: its epilogues, and the faults of programs that a GPU would find out.
// Not here: products of every form, which the backend's tests have (backend_gemm_test.cpp).
// cuBLAS library reference, cublasLt.
#include <cuda_bf16.h>

#include "tests/catch.h"
#include "tests/cuda/lt_product.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;

namespace {

/// y = a b by columns, a (2,3) and b (3,2); all elements are small integers.
struct Example : LtProduct {
  DeviceArray<float> of_a{std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}};
  DeviceArray<float> of_b{std::vector<float>{1, 0, 2, 1, 1, 0, 0, 0}};
  DeviceArray<float> of_c{std::vector<float>{10, 20, 30, 40}},
      vector{std::vector<float>{5, 7, 0, 0}};
  DeviceArray<float> workspace{4096};

  Example() : LtProduct({.m = 2, .n = 2, .k = 3}) {}

  void use(cublasLtEpilogue_t epilogue, float* data) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(epilogue));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(data));
  }
  cublasStatus_t multiply(float beta, float* from, std::size_t bytes = 4096 * sizeof(float)) {
    return queue(from, of_b, of_c, nullptr, beta, workspace, bytes);
  }
};

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("cublasLt adds a bias to each row") {
  Machine machine;
  Example e;
  e.use(CUBLASLT_EPILOGUE_BIAS, e.vector);
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(e.multiply(0, e.of_a) == CUBLAS_STATUS_SUCCESS);
  CHECK(e.of_c.values() == Floats{11 + 5, 14 + 7, 4 + 5, 6 + 7});
  REQUIRE(e.multiply(1, e.of_a) == CUBLAS_STATUS_SUCCESS);
  CHECK(e.of_c.values() == Floats{2 * 16, 2 * 21, 2 * 9, 2 * 13});
}

TEST_CASE("cublasLt takes a bias of the result's type, and no other epilogue") {
  Machine machine;
  Example e;
  e.use(CUBLASLT_EPILOGUE_BGRADA, e.vector);
  CHECK(e.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  e.use(CUBLASLT_EPILOGUE_BIAS, e.vector);
  e.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t(CUDA_R_16BF));
  CHECK(e.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(e.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint64_t(4)) == CUBLAS_STATUS_INVALID_VALUE);
  e.use(CUBLASLT_EPILOGUE_BIAS, nullptr);
  CHECK(e.choose() == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cublasLt refuses operands that are less aligned than its algorithm was chosen for") {
  Machine machine;
  Example e;
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(e.multiply(0, e.of_a + 1) == CUBLAS_STATUS_INVALID_VALUE);  // 256 bytes by default
  CHECK(e.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(4)) ==
        CUBLAS_STATUS_SUCCESS);
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(e.multiply(0, e.of_a + 1) == CUBLAS_STATUS_SUCCESS);
  e.use(CUBLASLT_EPILOGUE_BIAS, e.vector);
  CHECK(e.multiply(0, e.of_a) == CUBLAS_STATUS_NOT_SUPPORTED);  // chosen without a bias
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  e.use(CUBLASLT_EPILOGUE_BIAS, e.vector + 1);
  CHECK(e.multiply(0, e.of_a) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cublasLt splits a long sum only with the workspace that it was promised") {
  Machine machine;
  Example e;
  CHECK(e.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(1) << 14) ==
        CUBLAS_STATUS_SUCCESS);
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(e.found.workspaceSize > 0);
  CHECK(e.multiply(0, e.of_a, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(e.multiply(0, e.of_a) == CUBLAS_STATUS_SUCCESS);
  e.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(0));
  REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(e.found.workspaceSize == 0);
  CHECK(e.multiply(0, e.of_a, 0) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("products are queued in a stream, with the factors of the call") {
  Machine machine({.schedule = QueueSchedule::lazy});
  cuda::Stream stream;
  LtProduct square({.m = 1, .n = 1, .k = 1});
  REQUIRE(square.choose() == CUBLAS_STATUS_SUCCESS);
  DeviceArray<float> a(Floats{3}), c(Floats{1});
  REQUIRE(square.queue(a, a, c, stream, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.values()[0] == 1);
  PG_CUDA(cudaStreamSynchronize(stream));
  CHECK(c.values()[0] == 9 + 2);
}

TEST_CASE("products that cannot be are refused, by code or by report") {
  Machine machine(faulty());
  DeviceArray<float> x(16);
  cudaSetDevice(1);
  DeviceArray<float> elsewhere(16);
  cudaSetDevice(0);
  auto multiply = [&](int lda, const float* b) {
    LtProduct product({.m = 4, .n = 4, .k = 4, .lda = lda});
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    return product.queue(x, b, x);
  };
  CHECK(multiply(3, x) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(5, x) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_THAT(cuda::emulator::reset(), Contains("gemm: A needs 76 bytes of device 0"));
  CHECK(multiply(4, elsewhere) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_THAT(cuda::emulator::reset(), Contains("gemm: B needs 64 bytes of device 0"));
  LtProduct product({.m = 4, .n = 4, .k = 4});
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  cudaSetDevice(1);
  CHECK(product.queue(x, x, x) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("products that a GPU can't load 16 bytes at a time are counted") {
  Machine machine;
  DeviceArray<__nv_bfloat16> a(400), b(400);
  DeviceArray<float> c(400);
  // Whether the count grows: a (8,k) at `begin`, b (k,8).
  auto counts = [&](int begin, const LtSizes& sizes) {
    const std::int64_t before = cuda::emulator::misaligned_products();
    LtProduct product(sizes);
    product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(2));
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.queue(a + begin, b, c) == CUBLAS_STATUS_SUCCESS);
    return cuda::emulator::misaligned_products() > before;
  };
  auto sizes = [](int k, int ldb, std::int64_t stride, int batch, int ldc = 8) {
    return LtSizes{.m = 8,
                   .n = 8,
                   .k = k,
                   .type = CUDA_R_16BF,
                   .ldb = ldb,
                   .ldc = ldc,
                   .batch = batch,
                   .stride = stride};
  };
  CHECK_FALSE(counts(0, sizes(16, 16, 0, 1)));
  CHECK_FALSE(counts(8, sizes(9, 16, 128, 2)));  // a sum of any length
  CHECK(counts(1, sizes(16, 16, 0, 1)));
  CHECK(counts(0, sizes(9, 9, 0, 1)));
  CHECK(counts(0, sizes(8, 8, 100, 2)));
  CHECK(counts(0, sizes(8, 8, 0, 1, 9)));
  CHECK_FALSE(counts(0, sizes(8, 8, 100, 1)));  // one matrix has no step to the next
  cudaDeviceSynchronize();
  cuda::emulator::configure({});
  CHECK(cuda::emulator::misaligned_products() == 0);
}
