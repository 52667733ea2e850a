// The table of small kernels that chapter 12 shows.
// Not here: counts by hand, with reasons (the other tests). Chapter 12.
#include <fmt/format.h>

#include "tests/cuda/counted/counted.h"
#include "tests/cuda/counted/kernels.h"
#include "tests/figures.h"

using namespace plangrad;
using namespace plangrad::tests;

namespace {

std::string row(const std::string& name, const Counters& c) {
  auto or_dash = [](cuda::emulator::Count count) { return count ? fmt::to_string(count) : "-"; };
  return fmt::format("| {} | {} | {} | {} | {:.0f}% | {} | {} |\n", name,
                     c.loads.requests + c.stores.requests, c.loads.bytes + c.stores.bytes,
                     c.loads.sectors + c.stores.sectors, 100 * c.active(),
                     or_dash(c.shared_loads.passes), c.device_bytes());
}

}  // namespace

TEST_CASE("counted: chapter 12: small kernels of one warp") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(1024)), y(1024);
  const DeviceArray<__nv_bfloat16> a(ones(256)), b(ones(128));
  std::string table =
      "| a warp | requests | bytes asked for | sectors | lanes | passes of shared loads | bytes of "
      "device memory |\n| --- | --- | --- | --- | --- | --- | --- |\n";
  table += row("copies 32 neighbours", counters_of(copy_strided, 1, 32, x, y, 1, 0));
  table += row("copies every 2nd number", counters_of(copy_strided, 1, 32, x, y, 2, 0));
  table += row("copies every 32nd number", counters_of(copy_strided, 1, 32, x, y, 32, 0));
  table += row("copies neighbours, one number off", counters_of(copy_strided, 1, 32, x, y, 1, 1));
  table += row("copies 16 bytes a lane", counters_of(copy_vectors, 1, 32, x, y));
  table += row("copies one number to all lanes", counters_of(spread, 1, 32, x, y));
  table += row("takes both sides of a branch", counters_of(branch, 1, 32, x, y));
  table += row("has 16 lanes", counters_of(copy_strided, 1, 16, x, y, 1, 0));
  table += row("reads a column of shared memory", counters_of(load_column<32>, 1, 32, y));
  table += row("reads a column, with padding", counters_of(load_column<33>, 1, 32, y));
  table += row("sums by shuffles", counters_of(sum_warps, 1, 32, x, y));
  table += row("multiplies a tile on tensor cores", counters_of(multiply_tile, 1, 32, a, b, y));
  check_figure("counted_kernels", table);
}
