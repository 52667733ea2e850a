// Requests to device memory of small kernels, counted by hand: each test says what and why.
// Not here: shared memory (shared_test.cpp), and instructions of warps (warp_test.cpp).
// Chapter 12; CUDA C++ Best Practices Guide, coalesced access to global memory.
#include "tests/cuda/counted/counted.h"
#include "tests/cuda/counted/kernels.h"

using namespace plangrad;
using namespace plangrad::tests;

TEST_CASE("counted: a coalesced copy") {
  Machine machine({.order = Order::random});
  const DeviceArray<float> x(std::vector<float>(256)), y(256);
  const Counters c = counters_of(copy_strided, 2, 128, x, y, 1, 0);
  CHECK((c.launches == 1 && c.blocks == 2 && c.threads == 256));
  // 8 warps load once each: 32 lanes of 4 bytes are 128 bytes, 4 sectors, one line.
  CHECK((c.loads.requests == 8 && c.loads.lanes == 256 && c.loads.bytes == 1024));
  CHECK((c.loads.sectors == 32 && c.loads.lines == 8 && c.loads.distinct == 32));
  CHECK((c.stores.requests == 8 && c.stores.sectors == 32 && c.stores.distinct == 32));
  CHECK((c.device_bytes() == 2048 && c.sector_bytes() == 2048));
  CHECK((c.partial == 0 && c.active() == 1));
}

TEST_CASE("counted: a copy with a stride of 2") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(256)), y(256);
  const Counters c = counters_of(copy_strided, 1, 128, x, y, 2, 0);
  // A warp's 32 elements lie in 256 bytes: 8 sectors, 2 lines, half of which nobody asked for.
  CHECK((c.loads.requests == 4 && c.loads.bytes == 512));
  CHECK((c.loads.sectors == 32 && c.loads.lines == 8 && c.device_bytes() == 2 * 1024));
}

TEST_CASE("counted: a copy with a stride of 32") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(1024)), y(1024);
  const Counters c = counters_of(copy_strided, 1, 32, x, y, 32, 0);
  // Elements are 128 bytes apart: each lane has a sector and a line of its own.
  CHECK((c.loads.requests == 1 && c.loads.bytes == 128));
  CHECK((c.loads.sectors == 32 && c.loads.lines == 32 && c.device_bytes() == 2 * 1024));
}

TEST_CASE("counted: a copy that begins one element late") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(129)), y(129);
  const Counters c = counters_of(copy_strided, 1, 128, x, y, 1, 1);
  // Each warp's 128 bytes begin 4 bytes into a line: they touch 5 sectors and 2 lines. All four
  // together use bytes 4 to 515, which are 17 sectors, because neighbours share those at the ends.
  CHECK((c.loads.requests == 4 && c.loads.bytes == 512));
  CHECK((c.loads.sectors == 20 && c.loads.lines == 8 && c.loads.distinct == 17));
  CHECK((c.stores.sectors == 20 && c.device_bytes() == 2 * 17 * 32));
}

TEST_CASE("counted: a copy of 16 bytes a lane") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(256)), y(256);
  const Counters c = counters_of(copy_vectors, 1, 64, x, y);
  // 2 warps instead of 8 for 256 elements; a request has 512 bytes, 16 sectors, 4 lines.
  CHECK((c.loads.requests == 2 && c.loads.bytes == 1024));
  CHECK((c.loads.sectors == 32 && c.loads.lines == 8));
  CHECK((c.stores.requests == 2 && c.stores.sectors == 32 && c.device_bytes() == 2048));
}

TEST_CASE("counted: one address for all lanes") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(32)), y(128);
  const Counters c = counters_of(spread, 1, 128, x, y);
  // 4 warps load one sector each, and it is always the same one.
  CHECK((c.loads.requests == 4 && c.loads.lanes == 128 && c.loads.bytes == 512));
  CHECK((c.loads.sectors == 4 && c.loads.lines == 4 && c.loads.distinct == 1));
  CHECK(c.device_bytes() == 32 + 512);
}

TEST_CASE("counted: a branch that half of the lanes take") {
  Machine machine({.order = Order::reverse});
  const DeviceArray<float> x(std::vector<float>(64)), y(128);
  const Counters c = counters_of(branch, 1, 64, x, y);
  // Each of 2 warps: a load and a store by the 16 even lanes, a store by the 16 odd ones. Every
  // other element of 32 still touches 4 sectors.
  CHECK((c.loads.requests == 2 && c.loads.lanes == 32 && c.loads.sectors == 8));
  CHECK((c.stores.requests == 4 && c.stores.lanes == 64 && c.stores.sectors == 16));
  CHECK((c.partial == 6 && c.active() == 0.5));
}

TEST_CASE("counted: a last warp that has fewer lanes") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(80)), y(80);
  const Counters by_launch = counters_of(copy_strided, 1, 80, x, y, 1, 0);
  const Counters by_branch = counters_of(copy_some, 1, 96, x, y, 80);
  // 2 full warps, and one of 16 lanes: 64 bytes, 2 sectors. Whether the others are absent or have
  // returned, their places stay empty.
  for (const Counters& c : {by_launch, by_branch}) {
    CHECK((c.loads.requests == 3 && c.loads.lanes == 80 && c.loads.sectors == 10));
    CHECK((c.loads.lines == 3 && c.partial == 2 && c.device_bytes() == 2 * 320));
  }
  CHECK((by_launch.threads == 80 && by_branch.threads == 96));
}

TEST_CASE("counted: a row for each lane needs a cache") {
  Machine machine;
  const DeviceArray<float> x(std::vector<float>(256)), y(32);
  const Counters c = counters_of(sum_rows, 1, 32, x, y);
  // Rows are 32 bytes long, so each of 8 requests touches 32 sectors, and always the same ones:
  // with a cache 1 KiB is loaded, without it 8 KiB.
  CHECK((c.loads.requests == 8 && c.loads.sectors == 256 && c.loads.lines == 64));
  CHECK((c.loads.distinct == 32 && c.device_bytes() == 1024 + 128));
  CHECK(c.sector_bytes() == 8192 + 128);
}

TEST_CASE("counted: atomic operations are counted apart") {
  Machine machine;
  const DeviceArray<unsigned> x(std::vector<unsigned>(4));
  const Counters c = counters_of(add_one, 1, 64, x);
  CHECK((c.atomics.requests == 2 && c.atomics.lanes == 64 && c.atomics.sectors == 2));
  CHECK((c.atomics.distinct == 1 && c.loads.requests == 0 && c.stores.requests == 0));
  CHECK(x.values() == std::vector<unsigned>(4, 16));
}
