// The rungs of the ladders beside each other, and beside the limits that were measured in the same
// run: cuBLAS's rate of matrix products, and the device's copy bandwidth.
// Not here: odd sizes (tests/cuda/ladder_test.cpp). Results are compared before they are timed.
// Chapter 12.
#include <cuda_bf16.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cuda/launch/runtime.h"
#include "tests/benchmarks/ladder_counts.h"
#include "tests/benchmarks/ladder_page.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/lt_product.h"
#include "tutorials/kernels/rungs.h"

namespace {

using namespace plangrad::cuda;
using namespace plangrad::cuda::kernels;
using namespace plangrad::benchmarks;
using plangrad::tests::DeviceArray;
using Bytes = DeviceArray<unsigned char>;

/// Median of a few runs, in seconds, by the device's clock; of one where nobody wants to know.
double time_of(const std::function<void()>& run) {
  cudaEvent_t start, stop;
  PG_CUDA(cudaEventCreate(&start));
  PG_CUDA(cudaEventCreate(&stop));
  std::vector<float> milliseconds(can_count ? 1 : 9);
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

/// One of -1, -1/2, ..., 1, without a pattern (Knuth's multiplicative hash): sums of their products
/// are exact in f32 and equal in any order, and the numbers are exact in bf16.
float small_number(std::uint32_t i) {
  return (static_cast<int>((i * 2654435761u >> 16) % 5) - 2) / 2.0f;
}

/// An array of such numbers in f32, or, with 2 bytes for each, in bf16.
std::unique_ptr<Bytes> small_numbers(std::int64_t count, int element_bytes) {
  std::vector<unsigned char> bytes(count * element_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = small_number(static_cast<std::uint32_t>(i));
    const __nv_bfloat16 rounded = __float2bfloat16(number);
    if (element_bytes == 4)
      std::memcpy(&bytes[i * 4], &number, 4);
    else
      std::memcpy(&bytes[i * 2], &rounded, 2);
  }
  return std::make_unique<Bytes>(bytes);
}

// ---- limits ------------------------------------------------------------------------------------

/// What this device does at best, by measure.
struct Limits {
  double bytes_per_second;                   ///< read and written by a copy
  std::map<int, double> flops_per_second{};  ///< of cuBLAS's products, by an element's bytes

  /// The time in which these rates would do the rung's work, in seconds.
  double seconds(const Ladder& ladder, const Rung& rung, const Sizes& sizes) const {
    return std::max(ladder.least_bytes(rung, sizes) / bytes_per_second,
                    ladder.flops(sizes) / flops_per_second.at(rung.input_bytes));
  }
};

/// Multiplies square matrices with cuBLAS, which takes them for columns; that is all the same here.
double cublas_rate(int size, int element_bytes) {
  const std::int64_t count = std::int64_t{size} * size;
  const auto a = small_numbers(count, element_bytes), b = small_numbers(count, element_bytes);
  const DeviceArray<float> c(count);
  const Bytes workspace(32 << 20);
  plangrad::tests::LtProduct product(
      {.m = size, .n = size, .k = size, .type = element_bytes == 4 ? CUDA_R_32F : CUDA_R_16BF});
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace.bytes()});
  const auto check = [](cublasStatus_t status) {
    PG_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasLt: ", cublasLtGetStatusString(status));
  };
  check(product.choose());
  const double seconds =
      time_of([&] { check(product.queue(*a, *b, c, nullptr, 0, workspace, workspace.bytes())); });
  return 2.0 * count * size / seconds;
}

Limits measured_limits(bool emulated) {
  const Bytes from(emulated ? 1 << 16 : 1 << 28), to(from.bytes());
  const double copy = time_of(
      [&] { PG_CUDA(cudaMemcpyAsync(to, from, from.bytes(), cudaMemcpyDeviceToDevice, nullptr)); });
  Limits limits{2.0 * from.bytes() / copy};
  for (int bytes : {4, 2})
    limits.flops_per_second[bytes] = cublas_rate(emulated ? 128 : 4096, bytes);
  return limits;
}

// ---- rungs -------------------------------------------------------------------------------------

struct Row {
  Rung rung;
  double seconds, flops, bytes, limit;
  RungCount count;
};

/// Both rungs are off by at most the ladder's tolerance.
void check_close(const Ladder& ladder, const Rung& rung, const Sizes& sizes,
                 const std::vector<float>& result, const std::vector<float>& expected) {
  const double bound = ladder.tolerance(sizes, 4) + ladder.tolerance(sizes, rung.input_bytes);
  for (std::size_t i = 0; i < result.size(); ++i)
    PG_CHECK(std::abs(result[i] - expected[i]) <= bound, "ladder: ", rung.file, " and rung 1 of ",
             ladder.name, " differ by more than ", bound, " in element ", i, ": ", result[i],
             " and ", expected[i]);
}

std::vector<Row> measure(const Ladder& ladder, const Sizes& sizes, const Limits& limits) {
  const DeviceArray<float> output(ladder.output(sizes));
  const DeviceArray<float> scratch(std::max<std::int64_t>(1, ladder.scratch(sizes)));
  std::vector<float> expected;
  std::vector<Row> rows;
  for (const Rung& rung : ladder.rungs) {
    std::vector<std::unique_ptr<Bytes>> inputs;
    if (!rung.why_not().empty()) {
      fmt::print("\nNot run: {}.\n", rung.why_not());
      continue;
    }
    Operands operands{{}, output, scratch, sizes};
    for (std::int64_t elements : ladder.inputs(sizes)) {
      inputs.push_back(small_numbers(elements, rung.input_bytes));
      operands.inputs.push_back(*inputs.back());
    }
    PG_CUDA(cudaMemset(output, 0xFF, output.bytes()));  // NaN
    begin_counting();
    rung.run(operands, nullptr);
    const std::vector<float> result = output.values();
    const RungCount count = end_counting();
    if (expected.empty()) expected = result;
    check_close(ladder, rung, sizes, result, expected);
    rows.push_back({rung, time_of([&] { rung.run(operands, nullptr); }), ladder.flops(sizes),
                    ladder.least_bytes(rung, sizes), limits.seconds(ladder, rung, sizes), count});
  }
  return rows;
}

// ---- showing -----------------------------------------------------------------------------------

std::string title(const Ladder& ladder, const Sizes& sizes) {
  std::string result = ladder.name;
  for (std::size_t i = 0; i < ladder.size_names.size(); ++i)
    result += fmt::format(", {} {}", ladder.size_names[i], sizes[i]);
  return result;
}

void print(const Ladder& ladder, const Sizes& sizes, const std::vector<Row>& rows) {
  fmt::print("\n| {} | type | ms | GFLOP/s | least GB/s | of its limit |\n", title(ladder, sizes));
  fmt::print("| --- | --- | --- | --- | --- | --- |\n");
  for (const Row& row : rows)
    fmt::print("| {} {} | {} | {:.3f} | {:.1f} | {:.1f} | {:.1f}% |\n", row.rung.number,
               row.rung.name, row.rung.input_bytes == 4 ? "f32" : "bf16", 1e3 * row.seconds,
               row.flops / row.seconds / 1e9, row.bytes / row.seconds / 1e9,
               100 * row.limit / row.seconds);
}

nlohmann::json to_json(const Sizes& sizes, const std::vector<Row>& rows) {
  nlohmann::json result = {{"sizes", sizes}, {"rungs", nlohmann::json::array()}};
  for (const Row& row : rows)
    result["rungs"].push_back({{"number", row.rung.number},
                               {"name", row.rung.name},
                               {"file", row.rung.file},
                               {"milliseconds", 1e3 * row.seconds},
                               {"flops", row.flops},
                               {"least_bytes", row.bytes},
                               {"share_of_limit", row.limit / row.seconds}});
  return result;
}

/// A ladder for the page. With results of a GPU, operations and the bytes with a cache are those of
/// its sizes, and the bytes without one grow with the operations.
PageLadder to_page(const Ladder& ladder, const Sizes& sizes, const std::vector<Row>& rows,
                   const nlohmann::json& measured) {
  PageLadder page{title(ladder, sizes), ladder.formula, {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    PageRung rung{fmt::format("{} {}", row.rung.number, row.rung.name),
                  row.rung.idea,
                  row.rung.file,
                  row.flops,
                  row.count.cached_bytes,
                  row.count.all_bytes,
                  row.count.tensor,
                  0,
                  row.count.cells};
    if (!measured.is_null()) {
      const nlohmann::json& run = measured.at("ladders").at(ladder.name).at("rungs").at(i);
      PG_CHECK(run.at("file") == row.rung.file, "ladder: --measured has ", run.at("file"),
               " where this build has ", row.rung.file, "; measure again with this version");
      rung.flops = run.at("flops");
      rung.cached_bytes = run.at("least_bytes");
      rung.all_bytes *= rung.flops / row.flops;
      rung.rate = rung.flops / (run.at("milliseconds").get<double>() / 1e3);
    }
    page.rungs.push_back(rung);
  }
  return page;
}

/// What to measure. Without sizes, each ladder has its own, smaller ones on the emulator.
struct Choice {
  std::string ladder;
  std::vector<int> sizes;
  std::string file;
  std::string page, gpu = "H100", measured;
};

/// throws: Error if this build does not count, or the results are not a GPU's
nlohmann::json results_for_page(const Choice& choice) {
  PG_CHECK(can_count,
           "--page needs counters, which the emulator's ladder has when g++ compiles it in Release "
           "mode; on a GPU, write --json FILE, and give it to that ladder as --measured FILE");
  if (choice.measured.empty()) return nullptr;
  std::ifstream in(choice.measured);
  PG_CHECK(in.good(), "--measured: could not read ", choice.measured);
  const auto results = nlohmann::json::parse(in);
  PG_CHECK(!results.at("emulated").get<bool>(), "--measured: ", choice.measured,
           " is from the emulator, whose times say nothing of a GPU; give a file of ladder_gpu");
  return results;
}

/// Where the page's counts and rates come from.
std::string remark_for(const nlohmann::json& measured) {
  const std::string counts =
      "Counts are the emulator's, of a model that chapter 12 describes; blocks per SM are those of "
      "an H100 or H200, without the limit of registers. ";
  return measured.is_null()
             ? counts +
                   "No rate was measured: dots on the roof say what a rung could reach at most."
             : fmt::format("{}Thick lines are rates that were measured on {}, at larger sizes.",
                           counts, measured.at("device").get<std::string>());
}

Sizes sizes_for(const Ladder& ladder, const Choice& choice, bool emulated) {
  if (choice.sizes.empty()) return emulated ? ladder.small : ladder.large;
  PG_CHECK(choice.ladder == ladder.name && choice.sizes.size() == ladder.size_names.size(),
           "--size needs --ladder NAME and as many numbers as that ladder has sizes: ", ladder.name,
           " has ", fmt::format("{}", fmt::join(ladder.size_names, ", ")), "; got ",
           choice.sizes.size(), " numbers");
  Sizes sizes{};
  std::copy(choice.sizes.begin(), choice.sizes.end(), sizes.begin());
  return sizes;
}

void run(const std::string& device, bool emulated, const Choice& choice) {
  fmt::print("On {}{}.\n", device,
             emulated ? ", which proves logic, not speed: these are times of a CPU that imitates a "
                        "GPU, and say nothing about one"
                      : "");
  const Limits limits = measured_limits(emulated);
  fmt::print(
      "A limit is the larger of two times: for the least bytes at the rate of a copy ({:.1f} "
      "GB/s), and for the\noperations at the rate of cuBLAS's products ({:.1f} GFLOP/s in "
      "f32, {:.1f} in bf16).\n",
      limits.bytes_per_second / 1e9, limits.flops_per_second.at(4) / 1e9,
      limits.flops_per_second.at(2) / 1e9);
  nlohmann::json json = {{"device", device},
                         {"emulated", emulated},
                         {"copy_bytes_per_second", limits.bytes_per_second},
                         {"f32_flops_per_second", limits.flops_per_second.at(4)},
                         {"bf16_flops_per_second", limits.flops_per_second.at(2)}};
  const auto measured = choice.page.empty() ? nlohmann::json() : results_for_page(choice);
  Page page{remark_for(measured), count_columns, {}};
  for (const Ladder& ladder : ladders()) {
    if (!choice.ladder.empty() && choice.ladder != ladder.name) continue;
    const Sizes sizes = sizes_for(ladder, choice, emulated);
    const std::vector<Row> rows = measure(ladder, sizes, limits);
    print(ladder, sizes, rows);
    json["ladders"][ladder.name] = to_json(sizes, rows);
    if (!choice.page.empty()) page.ladders.push_back(to_page(ladder, sizes, rows, measured));
  }
  if (!choice.page.empty()) write_page(choice.page, page, data_sheet(choice.gpu));
  if (choice.file.empty()) return;
  std::ofstream out(choice.file);
  out << json.dump(2) << std::endl;
  PG_CHECK(out.good(), "ladder: could not write ", choice.file,
           "; give a file in a folder that is there");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times of the kernels of tutorials/kernels/, rung by rung");
  try {
    cudaDeviceProp device;
    PG_CUDA(cudaGetDeviceProperties(&device, 0));
    const std::string name = device.name;
    const bool emulated = name.find("emulator") != std::string::npos;
    std::vector<std::string> names;
    for (const Ladder& ladder : ladders()) names.push_back(ladder.name);
    Choice choice;
    app.add_option("--ladder", choice.ladder, "only this one")->check(CLI::IsMember(names));
    app.add_option("--size", choice.sizes, "that ladder's sizes, as its table names them")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--json", choice.file, "also writes the results there");
    app.add_option("--page", choice.page, "also writes a page with counters and rooflines there");
    app.add_option("--gpu", choice.gpu, "whose data sheet gives the page's ceilings")
        ->check(CLI::IsMember({"H100", "H200"}))
        ->capture_default_str();
    app.add_option("--measured", choice.measured, "the file of a ladder_gpu --json, for the page");
    CLI11_PARSE(app, argc, argv);
    run(name, emulated, choice);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
