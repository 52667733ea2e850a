// cublasLt of the emulator: its epilogues, and the faults of programs that a GPU would find out.
// Not here: products of every form, which cuBLAS's test has (cublas_test.cpp).
// cuBLAS library reference, cublasLt.
#include <cublasLt.h>

#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad::tests;

namespace {

/// y = a b by columns, a (2,3) and b (3,2) or its transpose; all elements are small integers.
struct Example {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulPreference_t preference;
  DeviceArray<float> of_a{std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}};
  DeviceArray<float> of_b{std::vector<float>{1, 0, 2, 1, 1, 0, 0, 0}};
  DeviceArray<float> of_c{std::vector<float>{10, 20, 30, 40}},
      vector{std::vector<float>{5, 7, 0, 0}};
  DeviceArray<float> workspace{4096};
  cublasLtMatmulHeuristicResult_t found{};

  explicit Example(bool transposed_b = false) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t(transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 2, 3, 2);
    if (transposed_b)
      cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 2, 3, 2);
    else
      cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 3, 2, 3);
    cublasLtMatrixLayoutCreate(&c, CUDA_R_32F, 2, 2, 2);
    cublasLtMatmulPreferenceCreate(&preference);
  }
  ~Example() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t x : {a, b, c}) cublasLtMatrixLayoutDestroy(x);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
  }

  template <class Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t which, Value value) {
    return cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value);
  }
  template <class Value>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t which, Value value) {
    return cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
  }
  void use(cublasLtEpilogue_t epilogue, float* data) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(epilogue));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(data));
  }
  cublasStatus_t choose() {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, 1, &found,
                                          &count);
  }
  cublasStatus_t multiply(float beta, float* from, std::size_t bytes = 4096 * sizeof(float)) {
    const float one = 1;
    return cublasLtMatmul(handle, operation, &one, from, a, of_b, b, &beta, of_c, c, of_c, c,
                          &found.algo, workspace, bytes, nullptr);
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

TEST_CASE("cublasLt sums the columns of a transposed right operand, and only of that") {
  Machine machine;
  {
    Example e(true);  // b (2,3) = 1 2 1; 0 1 0
    e.use(CUBLASLT_EPILOGUE_BGRADB, e.vector);
    REQUIRE(e.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(e.multiply(1, e.of_a) == CUBLAS_STATUS_SUCCESS);
    CHECK(e.of_c.values() == Floats{10 + 12, 20 + 16, 30 + 3, 40 + 4});
    CHECK(e.vector.values() == Floats{4, 1, 0, 0});
  }
  Example e;
  e.use(CUBLASLT_EPILOGUE_BGRADB, e.vector);
  CHECK(e.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
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
