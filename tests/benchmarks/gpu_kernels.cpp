// Every kernel of a device's Backend, held against what was measured in the same run: those that
// move data against the device's copy bandwidth, products and attention against its rate of matrix
// products.
// Not here: a training step (gpu_training.cpp), the ladder's kernels (ladder.cpp). Chapter 12.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "examples/programs/program.h"
#include "tests/benchmarks/device_clock.h"
#include "tests/benchmarks/kernel_products.h"

namespace {

using namespace plangrad::benchmarks;
using nlohmann::json;

/// What the device can do at best, in bytes and operations a second.
struct Limits {
  double copy, f32, bf16;

  Limits(const DeviceClock& clock, const KernelSizes& sizes)
      : copy(clock.copy_rate(8 * sizes.elements)),
        f32(clock.matmul_rate(DType::f32, sizes.product)),
        bf16(clock.matmul_rate(DType::bf16, sizes.product)) {}

  double seconds(const KernelRow& row, DType dtype) const {
    if (row.bytes > 0) return row.bytes / copy;
    return row.flops / (dtype == DType::bf16 ? bf16 : f32);
  }
};

json measure(const DeviceClock& clock, const KernelRow& row, DType dtype, const Limits& limits) {
  const double seconds = clock.time_of(row.run);
  const double limit = row.beside ? clock.time_of(row.beside) : limits.seconds(row, dtype);
  const bool moves = row.bytes > 0;
  return {{"name", row.name},
          {"dtype", name_of(dtype)},
          {"milliseconds", 1e3 * seconds},
          {"giga_per_second", (moves ? row.bytes : row.flops) / seconds / 1e9},
          {"unit", moves ? "GB/s" : "GFLOP/s"},
          {"limit", row.beside ? "whole"
                    : moves    ? "copy"
                               : "matmul"},
          {"share", limit / seconds}};
}

void print(const json& row) {
  fmt::print("| {} | {} | {:.3f} | {:.0f} {} | {:.0f}% |\n", row["name"].get<std::string>(),
             row["dtype"].get<std::string>(), row["milliseconds"].get<double>(),
             row["giga_per_second"].get<double>(), row["unit"].get<std::string>(),
             100 * row["share"].get<double>());
  std::fflush(stdout);
}

json run(const DeviceClock& clock, const KernelSizes& sizes, const std::string& only) {
  const Limits limits(clock, sizes);
  fmt::print(
      "{}Copying: {:.0f} GB/s, read and written. Matrix products of {}: {:.1f} TFLOP/s in f32, "
      "{:.1f} in bf16.\n\n"
      "| kernel | type | ms | rate | of copying, or of matrix products |\n"
      "| --- | --- | --- | --- | --- |\n",
      clock.remark(), limits.copy / 1e9, sizes.product, limits.f32 / 1e12, limits.bf16 / 1e12);
  json result = {{"is_gpu", clock.is_gpu()},
                 {"elements", sizes.elements},
                 {"copy_gigabytes_per_second", limits.copy / 1e9},
                 {"matmul_size", sizes.product},
                 {"matmul_gflops_f32", limits.f32 / 1e9},
                 {"matmul_gflops_bf16", limits.bf16 / 1e9},
                 {"kernels", json::array()}};
  using Make = std::vector<KernelRow> (KernelRows::*)();
  for (Make make : {&KernelRows::element_wise, &KernelRows::sums, &KernelRows::rows_of_width,
                    &KernelRows::vocabulary, &KernelRows::images, &KernelRows::layout,
                    &KernelRows::codecs, &KernelRows::optimizers, &KernelRows::products,
                    &KernelRows::attention, &KernelRows::sparse_products})
    for (DType dtype : {DType::f32, DType::bf16})
      for (const KernelRow& row : (KernelRows(clock.device(), dtype, sizes).*make)()) {
        if (row.name.find(only) == std::string::npos) continue;
        result["kernels"].push_back(measure(clock, row, dtype, limits));
        print(result["kernels"].back());
      }
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app(
      "Rates of a device's kernels, as shares of its bandwidth and of its matrix products");
  std::string device = "cuda", only, file;
  std::int64_t product = 0;
  plangrad::examples::Flags flags(app);
  plangrad::examples::add_device_flag(flags, device);
  flags.words("--only", only, "TEXT", "kernels that have this in their names");
  flags.whole("--matmul", product, std::int64_t{0},
              "size of the matrix products that are the limit; 0: as suits the device");
  flags.words("--json", file, "FILE", "also writes the results there");
  CLI11_PARSE(app, argc, argv);
  const DeviceClock clock(device);
  KernelSizes sizes = clock.is_gpu() ? gpu_sizes : small_sizes;
  if (product > 0) sizes.product = product;
  const json result = run(clock, sizes, only);
  if (!file.empty()) write_json(file, result);
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
