// Instructions of warps, counted by hand; sums by kernel; and the limits of an SM.
// Not here: memory (global_test.cpp, shared_test.cpp).
// Chapter 12; PTX ISA, warp-level matrix instructions.
#include "cuda/emulator/counted/counters.h"
#include "tests/cuda/counted/counted.h"
#include "tests/cuda/counted/kernels.h"
#include "tests/cuda/lt_product.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::emulator::Occupancy;
using cuda::emulator::occupancy;

TEST_CASE("counted: a sum over a warp takes five shuffles") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(128, 1)), y(4);
  const Counters c = counters_of(sum_warps, 1, 128, x, y);
  // 4 warps, 5 steps of a butterfly each; then one lane of each stores.
  CHECK((c.shuffles == 20 && c.barriers == 0));
  CHECK((c.loads.requests == 4 && c.stores.requests == 4 && c.stores.lanes == 4));
  CHECK((c.partial == 4 && y.values() == std::vector<float>(4, 32)));
}

TEST_CASE("counted: a sum over a block") {
  Machine machine({.order = Order::random});
  const DeviceArray<float> x(std::vector<float>(128, 1)), y(1);
  const Counters c = counters_of(sum_block, 1, 128, x, y);
  // Each of 4 warps sums twice: its own numbers, then all warps' sums. Between two barriers, one
  // lane of each warp stores a sum, and afterwards 4 lanes of each load all of them.
  CHECK((c.shuffles == 40 && c.barriers == 2));
  CHECK((c.shared_stores.requests == 4 && c.shared_stores.lanes == 4));
  CHECK((c.shared_loads.requests == 4 && c.shared_loads.lanes == 16));
  CHECK((c.bank_conflicts() == 0 && c.stores.bytes == 4 && c.static_bytes == 16));
}

TEST_CASE("counted: a tile on tensor cores") {
  Machine machine;
  const DeviceArray<__nv_bfloat16> a(ones(256)), b(ones(128));
  const DeviceArray<float> c_tile(128);
  const Counters c = counters_of(multiply_tile, 1, 32, a, b, c_tile);
  CHECK(c_tile.values() == std::vector<float>(128, 16));
  // One mma is 2 * 16 * 8 * 16 operations. Each lane copies 16 bytes twice; of b, lanes l and
  // l + 16 copy the same ones, which are 256 bytes.
  CHECK((c.mmas == 1 && c.flops == 4096 && c.matrix_loads == 2));
  CHECK((c.loads.requests == 2 && c.loads.bytes == 1024 && c.loads.sectors == 16 + 8));
  CHECK((c.shared_stores.requests == 2 && c.shared_stores.passes == 8));
  // An ldmatrix_x4 loads four matrices of 8 rows of 16 bytes. Those of b lie in a row, so each
  // takes one pass. Rows of a are 32 bytes apart: rows r and r + 4 share banks, two passes each.
  CHECK((c.shared_loads.requests == 2 && c.shared_loads.passes == 4 + 8));
  CHECK(c.bank_conflicts() == 4);
  // c is stored element by element: row g's pairs t, t + 1, of which a store has every other one.
  CHECK((c.stores.requests == 4 && c.stores.bytes == 512 && c.stores.distinct == 16));
  CHECK(c.barriers == 1);
}

TEST_CASE("counted: a tile on tensor cores that read shared memory themselves") {
  Machine machine;
  const DeviceArray<float> tile(16 * 64);
  for (auto kernel : {multiply_shared<false>, multiply_shared<true>}) {
    const Counters c = counters_of(kernel, 1, 32, tile);
    CHECK(tile.values() == std::vector<float>(16 * 64, 16));
    CHECK((c.mmas == 8 && c.flops == 2 * 16 * 64 * 16));
    // The 2 KB of b, without conflicts: rows are swizzled.
    CHECK((c.shared_loads.bytes == 2048 && c.shared_loads.passes == 16));
  }
}

TEST_CASE("counted: launches add up by kernel, and products have their operands' bytes") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(128, 1)), y(128), z(128);
  LtProduct square({.m = 8, .n = 8, .k = 8});
  REQUIRE(square.choose() == CUBLAS_STATUS_SUCCESS);
  cuda::emulator::reset_counters();
  // x and y are 8 x 8 here, and so is z: 256 bytes each.
  REQUIRE(square.queue(x, x, z) == CUBLAS_STATUS_SUCCESS);
  for (int i = 0; i < 3; ++i) cuda::launch(sum_warps, 1, 128, 0, nullptr, x, y);
  PG_CUDA(cudaDeviceSynchronize());
  CHECK(cuda::emulator::counters().size() == 4);
  const auto kernels = by_kernel(cuda::emulator::counters());
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].name == "gemm");
  CHECK((kernels[0].counts.flops == 2 * 512 && kernels[0].counts.loads.bytes == 512));
  CHECK(kernels[0].counts.device_bytes() == 512);  // x once, and z
  CHECK(cuda::emulator::short_name(kernels[1].name) == "sum_warps");
  CHECK((kernels[1].counts.launches == 3 && kernels[1].counts.threads == 384));
  CHECK((kernels[1].counts.loads.distinct == 3 * 16 && kernels[1].block.x == 128));
}

TEST_CASE("counted: short names") {
  using cuda::emulator::short_name;
  CHECK(short_name("gemm") == "gemm");
  CHECK(short_name("a::(anonymous namespace)::f(float const*, int)") == "f");
  CHECK(short_name("void a::f<a::g, 2>(a::T<a::(anonymous namespace)::h>, a::U)") == "f<g, 2>");
}

TEST_CASE("counted: occupancy is the least of an SM's limits") {
  auto of = [](int capability, int threads, std::size_t bytes, int registers = 0) {
    const Occupancy o = occupancy(capability, threads, bytes, registers);
    return std::pair(o.blocks, o.limit);
  };
  using Limit = std::pair<int, std::string>;
  CHECK(of(90, 32, 0) == Limit(32, "blocks"));
  CHECK(of(90, 256, 0) == Limit(8, "threads"));
  CHECK(of(90, 1024, 0) == Limit(2, "threads"));
  // 48 KiB and the system's 1: 228 / 49 and 164 / 49.
  CHECK(of(90, 128, 48 * 1024) == Limit(4, "shared memory"));
  CHECK(of(80, 128, 48 * 1024) == Limit(3, "shared memory"));
  // 255 registers are given out as 8192 a warp, two for each quarter of an SM.
  CHECK(of(90, 128, 0, 255) == Limit(2, "registers"));
  CHECK(of(90, 128, 0, 32) == Limit(16, "threads"));
  CHECK(occupancy(90, 128, 0, 255).share == 0.125);
  CHECK_THROWS(occupancy(75, 128, 0));
}
