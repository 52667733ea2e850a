// Passes through shared memory, counted by hand.
// Not here: device memory (global_test.cpp).
// Chapter 12; CUDA C++ Programming Guide, shared memory and its banks.
#include "tests/cuda/counted/counted.h"
#include "tests/cuda/counted/kernels.h"

using namespace plangrad;
using namespace plangrad::tests;

namespace {

void check_strided(int stride, unsigned passes) {
  const DeviceArray<float> y(32);
  const Counters c = counters_of(load_strided, 1, 32, y, stride);
  CHECK((c.shared_stores.requests == 32 && c.shared_stores.passes == 32));
  CHECK((c.shared_loads.requests == 1 && c.shared_loads.bytes == 128));
  CHECK((c.shared_loads.passes == passes && c.bank_conflicts() == passes - 1));
  CHECK((c.barriers == 1 && c.static_bytes == 4096));
}

template <int N>
void check_columns() {
  const DeviceArray<float> y(32);
  const Counters c = counters_of(exchange_columns<N>, 1, 32, y);
  CHECK((c.shared_stores.requests == 2 * N && c.shared_stores.passes == 2 * N));
  CHECK((c.shared_loads.requests == 2 * N && c.shared_loads.passes == 2 * N));
  CHECK(y.values() == std::vector<float>(32, 2 * N));
}

}  // namespace

TEST_CASE("counted: columns have places without conflicts, by packs and by neighbours") {
  Machine machine;
  check_columns<1>();
  check_columns<4>();
  check_columns<8>();
}

TEST_CASE("counted: shared memory with a stride of 1, 2 and 32") {
  Machine machine;
  check_strided(1, 1);    // each lane has a bank of its own
  check_strided(0, 1);    // all lanes have the same word, which one pass brings to all
  check_strided(2, 2);    // lanes l and l + 16 have the same bank, and different words
  check_strided(31, 1);   // 31 and 32 have no common divisor
  check_strided(32, 32);  // all lanes have the same bank
}

TEST_CASE("counted: padding takes a column apart") {
  Machine machine;
  const DeviceArray<float> y(32);
  CHECK(counters_of(load_column<32>, 1, 32, y).bank_conflicts() == 31);  // one bank
  CHECK(counters_of(load_column<33>, 1, 32, y).bank_conflicts() == 0);   // row r: bank r + 5
  const Counters c = counters_of(load_column<36>, 1, 32, y);
  // Row r begins at bank 4 r: 8 different banks, each for 4 rows.
  CHECK((c.shared_loads.passes == 4 && c.bank_conflicts() == 3));
  CHECK(c.static_bytes == 4096);  // nobody uses the padding
}

TEST_CASE("counted: 16 bytes of shared memory a lane") {
  Machine machine;
  const DeviceArray<float> y(32);
  const Counters near = counters_of(load_vectors, 1, 32, y, 4);
  // 512 bytes in a row: 4 passes, of a quarter of the warp each, and no conflict.
  CHECK((near.shared_loads.requests == 1 && near.shared_loads.bytes == 512));
  CHECK((near.shared_loads.passes == 4 && near.bank_conflicts() == 0));
  const Counters far = counters_of(load_vectors, 1, 32, y, 8);
  // Lanes l and l + 4 of a quarter have the same four banks: twice as many passes.
  CHECK((far.shared_loads.passes == 8 && far.bank_conflicts() == 4));
}
