// The rungs of the ladder beside each other, and beside the limits that were measured in the same
// run: cuBLAS's rate for matrix products, the device's copy bandwidth for layer norm.
// Not here: odd sizes (tests/cuda/ladder_test.cpp). Results are compared before they are timed.
// Chapter 12.
#include "cuda/ladder/ladder.h"

#include <cublas_v2.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "cuda/launch/runtime.h"
#include "tests/cuda/device_array.h"

namespace {

using namespace paragrad::cuda;
using namespace paragrad::cuda::ladder;
using paragrad::tests::DeviceArray;
using bf16 = __nv_bfloat16;

/// Median of a few runs, in seconds, by the device's clock.
double time_of(const std::function<void()>& run) {
  cudaEvent_t start, stop;
  PG_CUDA(cudaEventCreate(&start));
  PG_CUDA(cudaEventCreate(&stop));
  std::vector<float> milliseconds(9);
  run();
  for (float& each : milliseconds) {
    PG_CUDA(cudaEventRecord(start));
    run();
    PG_CUDA(cudaEventRecord(stop));
    PG_CUDA(cudaEventSynchronize(stop));
    PG_CUDA(cudaEventElapsedTime(&each, start, stop));
  }
  PG_CUDA(cudaEventDestroy(start));
  PG_CUDA(cudaEventDestroy(stop));
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[milliseconds.size() / 2] / 1e3;
}

/// A rung, or what it is measured by. The work is in operations or bytes.
struct Row {
  std::string name;
  double seconds, work, limit;
};

// ---- matrix products -------------------------------------------------------------------------

/// One of -2, ..., 2, without a pattern (Knuth's multiplicative hash): sums of their products are
/// exact in f32 and equal in any order, and the numbers are exact in bf16.
float small_integer(std::uint32_t i) { return static_cast<int>((i * 2654435761u >> 16) % 5) - 2; }

template <class T>
std::vector<T> small_integers(std::size_t count) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == sizeof(float))
      result[i] = small_integer(i);
    else
      result[i] = __float2bfloat16(small_integer(i));
  }
  return result;
}

/// c = a b by cuBLAS, whose matrices are columns: there it is c^T = b^T a^T.
template <class T>
void by_cublas(cublasHandle_t handle, const ProductOf<T>& p) {
  const float one = 1, zero = 0;
  const cudaDataType_t type = sizeof(T) == sizeof(float) ? CUDA_R_32F : CUDA_R_16BF;
  const cublasStatus_t status =
      cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, p.n, p.m, p.k, &one, p.b, type, p.n, p.a, type,
                   p.k, &zero, p.c, CUDA_R_32F, p.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  PG_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasGemmEx: ", cublasGetStatusString(status));
}

template <class T>
struct ProductRung {
  std::string name;
  void (*run)(const ProductOf<T>&, cudaStream_t);
};

/// cuBLAS first, then the rungs.
/// throws: Error if a rung's result is not cuBLAS's
template <class T>
std::vector<Row> products(int size, const std::string& cublas_name,
                          const std::vector<ProductRung<T>>& rungs) {
  const std::size_t count = std::size_t(size) * size;
  const DeviceArray<T> a(small_integers<T>(count)), b(small_integers<T>(count));
  const DeviceArray<float> c(count);
  const ProductOf<T> p{a, b, c, size, size, size};
  const double flops = 2.0 * count * size;
  cublasHandle_t handle;
  PG_CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cublasCreate failed");
  const double best = time_of([&] { by_cublas(handle, p); });
  cublasDestroy(handle);
  std::vector<Row> rows = {{cublas_name, best, flops, best}};
  const std::vector<float> expected = c.values();
  for (const ProductRung<T>& rung : rungs) {
    PG_CUDA(cudaMemset(c, 0xFF, c.bytes()));  // NaN
    rung.run(p, nullptr);
    PG_CHECK(c.values() == expected, "ladder: ", rung.name, " differs from cuBLAS; its inputs are ",
             "integers, and sums of their products exact");
    rows.push_back({rung.name, time_of([&] { rung.run(p, nullptr); }), flops, best});
  }
  return rows;
}

// ---- layer norm ------------------------------------------------------------------------------

struct NormRung {
  std::string name;
  void (*run)(const LayerNorm&, cudaStream_t);
};

/// Normalised elements are below 2 here, weights and biases at most 2; each rung's are off by at
/// most about `width` roundings.
void check_close(const std::string& name, const std::vector<float>& y,
                 const std::vector<float>& expected, int width) {
  const double bound = std::ldexp(2 * 6.0 * (width + 8), -24);
  for (std::size_t i = 0; i < y.size(); ++i)
    PG_CHECK(std::abs(y[i] - expected[i]) <= bound, "ladder: ", name,
             " differs from the plain one ", "by more than ", bound, ": ", y[i], " instead of ",
             expected[i]);
}

/// A copy of x first, then the rungs.
std::vector<Row> norms(int rows, int width, const std::vector<NormRung>& rungs) {
  const std::size_t count = std::size_t(rows) * width;
  const DeviceArray<float> x(small_integers<float>(count)), y(count);
  const DeviceArray<float> weight(small_integers<float>(width)), bias(small_integers<float>(width));
  const LayerNorm norm{x, weight, bias, y, rows, width, 1e-5f};
  const double bytes = 2.0 * x.bytes();
  const double best = time_of(
      [&] { PG_CUDA(cudaMemcpyAsync(y, x, x.bytes(), cudaMemcpyDeviceToDevice, nullptr)); });
  std::vector<Row> result = {{"copy", best, bytes, best}};
  std::vector<float> expected;
  for (const NormRung& rung : rungs) {
    PG_CUDA(cudaMemset(y, 0xFF, y.bytes()));
    rung.run(norm, nullptr);
    if (expected.empty()) expected = y.values();
    check_close(rung.name, y.values(), expected, width);
    result.push_back({rung.name, time_of([&] { rung.run(norm, nullptr); }), bytes, best});
  }
  return result;
}

// ---- showing ---------------------------------------------------------------------------------

struct Sizes {
  int product, rows, width;
};

struct Table {
  std::string key, title, unit, limit;
  std::vector<Row> rows;
};

std::vector<Table> measure(const Sizes& sizes) {
  const std::string square = fmt::format("{0} x {0} by {0} x {0}", sizes.product);
  return {
      {"matmul", square + ", f32", "GFLOP/s", "cuBLAS",
       products<float>(sizes.product, "cuBLAS, f32",
                       {{"1 plain", matmul_plain},
                        {"2 tiled", matmul_tiled},
                        {"3 registers", matmul_registers},
                        {"4 async", matmul_async}})},
      {"matmul_bf16", square + ", bf16", "GFLOP/s", "cuBLAS",
       products<bf16>(sizes.product, "cuBLAS, bf16", {{"5 tensor cores", matmul_tensor_cores}})},
      {"layer_norm", fmt::format("layer norm, {} x {}", sizes.rows, sizes.width), "GB/s", "a copy",
       norms(sizes.rows, sizes.width,
             {{"1 plain", layer_norm_plain},
              {"2 warp", layer_norm_warp},
              {"3 registers", layer_norm_registers}})}};
}

void print(const Table& table) {
  fmt::print("\n| {} | ms | {} | of {} |\n| --- | --- | --- | --- |\n", table.title, table.unit,
             table.limit);
  for (const Row& row : table.rows)
    fmt::print("| {} | {:.3f} | {:.1f} | {:.1f}% |\n", row.name, 1e3 * row.seconds,
               row.work / row.seconds / 1e9, 100 * row.limit / row.seconds);
}

nlohmann::json to_json(const std::vector<Row>& rows) {
  nlohmann::json result = nlohmann::json::array();
  for (const Row& row : rows)
    result.push_back({{"name", row.name},
                      {"milliseconds", 1e3 * row.seconds},
                      {"giga_per_second", row.work / row.seconds / 1e9},
                      {"share", row.limit / row.seconds}});
  return result;
}

void run(const std::string& device, bool emulated, const Sizes& sizes, const std::string& file) {
  fmt::print("On {}{}.\n", device,
             emulated ? ", which proves logic, not speed: these are times of a CPU that imitates a "
                        "GPU, and say nothing about one"
                      : "");
  nlohmann::json json = {{"device", device},
                         {"emulated", emulated},
                         {"size", sizes.product},
                         {"rows", sizes.rows},
                         {"width", sizes.width}};
  for (const Table& table : measure(sizes)) {
    print(table);
    json[table.key] = to_json(table.rows);
  }
  if (file.empty()) return;
  std::ofstream out(file);
  out << json.dump(2) << std::endl;
  PG_CHECK(out.good(), "ladder: could not write ", file, "; give a file in a folder that is there");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times of the kernels of cuda/ladder/, rung by rung");
  try {
    cudaDeviceProp device;
    PG_CUDA(cudaGetDeviceProperties(&device, 0));
    const std::string name = device.name;
    const bool emulated = name.find("emulator") != std::string::npos;
    Sizes sizes = emulated ? Sizes{128, 64, 256} : Sizes{4096, 65536, 1024};
    std::string file;
    auto size = [&](const std::string& flag, int& value, int most, const std::string& what) {
      app.add_option(flag, value, what)->capture_default_str()->check(CLI::Range(1, most));
    };
    size("--size", sizes.product, 16384, "m, n and k of the matrix products");
    size("--rows", sizes.rows, 1 << 20, "of the layer norms");
    size("--width", sizes.width, 2048, "of the layer norms");
    app.add_option("--json", file, "also writes the results there");
    CLI11_PARSE(app, argc, argv);
    run(name, emulated, sizes, file);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
