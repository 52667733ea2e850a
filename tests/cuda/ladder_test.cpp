// The rungs of the ladder against f64, in every order of threads.
#include "tutorials/kernels/ladder.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "tests/catch.h"
#include "tests/cuda/ladder_references.h"
#include "tests/cuda/machine.h"
#include "tests/figures.h"

using namespace plangrad;
using namespace plangrad::tests;
using namespace plangrad::cuda::kernels;

namespace {

/// An input of a rung in device memory. It begins `skip` elements behind an address that is aligned
/// for all, so that no rung can rely on alignment.
class Input {
 public:
  Input(std::int64_t elements, int element_bytes, int seed, int skip)
      : device_((skip + elements) * element_bytes), at_(device_ + skip * element_bytes) {
    std::vector<unsigned char> bytes(elements * element_bytes);
    for (std::int64_t i = 0; i < elements; ++i) {
      const float value = std::sin(float(seed + i * 7 % 1009));
      const __nv_bfloat16 rounded = __float2bfloat16(value);
      if (element_bytes == 4)
        std::memcpy(&bytes[i * 4], &value, 4);
      else
        std::memcpy(&bytes[i * 2], &rounded, 2);
      values_.push_back(element_bytes == 4 ? value : __bfloat162float(rounded));
    }
    PG_CUDA(cudaMemcpy(at_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  const unsigned char* at() const { return at_; }
  const Values& values() const { return values_; }

 private:
  DeviceArray<unsigned char> device_;
  unsigned char* at_;
  Values values_;
};

/// Returns what the rung computes, and checks it.
std::vector<float> checked_result(const Ladder& ladder, const Rung& rung, const Sizes& sizes,
                                  int skip) {
  std::vector<Values> values;
  Operands operands;
  operands.sizes = sizes;
  std::vector<std::unique_ptr<Input>> inputs;
  for (std::int64_t elements : ladder.inputs(sizes)) {
    inputs.push_back(
        std::make_unique<Input>(elements, rung.input_bytes, 1 + int(inputs.size()), skip));
    operands.inputs.push_back(inputs.back()->at());
    values.push_back(inputs.back()->values());
  }
  DeviceArray<float> output(ladder.output(sizes));
  DeviceArray<float> scratch(std::max<std::int64_t>(1, ladder.scratch(sizes)));
  operands.output = output;
  operands.scratch = scratch;
  rung.run(operands, nullptr);
  std::vector<float> result = output.values();
  const Values expected = ladder_reference(ladder.name).compute(values, sizes);
  REQUIRE(result.size() == expected.size());
  const double tolerance = ladder.tolerance(sizes, rung.input_bytes);
  // Not a check of each element: Catch2 takes longer for those than the kernels.
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!(std::abs(result[i] - expected[i]) <= tolerance))
      FAIL("element " << i << ": expected " << expected[i] << ", got " << result[i]);
  return result;
}

/// Runs the rung with all sizes in several orders; all of them must give the bits of the first.
template <class Orders>
void check(const Ladder& ladder, const Rung& rung, const Orders& orders) {
  for (const Sizes& sizes : ladder_reference(ladder.name).sizes)
    for (int skip : {0, 1}) {
      if (rung.hopper && (skip || sizes[1] % 8 || sizes[2] % 8)) continue;
      INFO(rung.file << " with sizes " << sizes[0] << ", " << sizes[1] << ", " << sizes[2]
                     << ", inputs " << skip << " elements behind an aligned address");
      std::optional<std::vector<float>> first;
      for (Order order : orders) {
        Machine machine({.order = order});
        std::vector<float> result = checked_result(ladder, rung, sizes, skip);
        if (!first) first = result;
        REQUIRE(std::memcmp(first->data(), result.data(), 4 * result.size()) == 0);
      }
    }
}

template <class Orders>
void check_all(const Orders& orders) {
  for (const Ladder& ladder : ladders())
    for (const Rung& rung : ladder.rungs)
      if (!rung.hopper) check(ladder, rung, orders);
}

}  // namespace

TEST_CASE("the ladder's rungs agree with f64") { check_all(std::array{Order::random}); }

TEST_CASE("the ladder's rungs compute the same bits in every order") { check_all(all_orders); }

TEST_CASE("the ladder's Hopper rung agrees with f64") {
  for (const Ladder& ladder : ladders())
    for (const Rung& rung : ladder.rungs) {
      if (!rung.hopper) continue;
      if (!rung.why_not().empty()) SKIP_TEST(rung.why_not());
      check(ladder, rung, all_orders);
    }
}

TEST_CASE("the ladder's rungs count what they must move and compute") {
  const Ladder& products = ladders().front();
  const Sizes sizes = {2, 3, 5};
  CHECK(products.name == "matmul");
  CHECK(products.flops(sizes) == 2 * 2 * 3 * 5);
  CHECK(products.least_bytes(products.rungs.front(), sizes) == 4 * (2 * 5 + 5 * 3 + 2 * 3));
  CHECK(products.least_bytes(products.rungs.back(), sizes) == 2 * (2 * 5 + 5 * 3) + 4 * 2 * 3);
}

TEST_CASE("the ladder's rungs are numbered, and their files are there") {
  for (const Ladder& ladder : ladders())
    for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
      const Rung& rung = ladder.rungs[i];
      CHECK(rung.number == int(i) + 1);
      CHECK(rung.file == "tutorials/kernels/" + ladder.name + "_" + std::to_string(rung.number) +
                             "_" + rung.name + ".cu");
    }
}

#if defined(CUDA_EMULATOR)  // a GPU's machine may have no tutorials
TEST_CASE("chapter 12 shows the list of the ladder's rungs") {
  std::string all =
      "| ladder | computes | sizes | operations | least MB in f32 / bf16 | operations per byte |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const Ladder& ladder : ladders()) {
    std::string sizes, megabytes, intensity,
        rungs = "| rung | idea | waits for |\n| --- | --- | --- |\n";
    for (std::size_t i = 0; i < ladder.size_names.size(); ++i)
      sizes += fmt::format("{}{} {}", i ? ", " : "", ladder.size_names[i], ladder.large[i]);
    int last_bytes = 0;  // of the rung before
    for (const Rung& rung : ladder.rungs) {
      rungs +=
          fmt::format("| {0} [{1}]({2}) | {3} | {4} |\n", rung.number, rung.name,
                      std::filesystem::path(rung.file).lexically_relative("tutorials").string(),
                      rung.idea, rung.limit);
      if (std::exchange(last_bytes, rung.input_bytes) == rung.input_bytes) continue;
      const double bytes = ladder.least_bytes(rung, ladder.large);
      megabytes += fmt::format("{}{:.0f}", megabytes.empty() ? "" : " / ", bytes / 1e6);
      const double per_byte = ladder.flops(ladder.large) / bytes;
      intensity +=
          fmt::format("{}{:.{}f}", intensity.empty() ? "" : " / ", per_byte, per_byte < 10 ? 2 : 0);
    }
    all += fmt::format("| {} | {} | {} | {:.1f} G | {} | {} |\n", ladder.name, ladder.formula,
                       sizes, ladder.flops(ladder.large) / 1e9, megabytes, intensity);
    check_figure("ladder_" + ladder.name, rungs);
  }
  check_figure("ladders", all);
}
#endif

TEST_CASE("rows that don't fit the registers of a warp are refused") {
  DeviceArray<float> row(2049);
  CHECK_THROWS_WITH(softmax_registers({row, row, 1, 2049}, nullptr),
                    Contains("at most 2048") && Contains("use softmax_warp"));
  CHECK_THROWS_WITH(layer_norm_registers({row, row, row, row, 1, 2049, 1e-5f}, nullptr),
                    Contains("at most 2048") && Contains("use layer_norm_warp"));
}
