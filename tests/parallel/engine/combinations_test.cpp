// All choices with all others: the engine over threads has the bits of the serial interpreter.
// Not here: over MPI (tests/parallel/mpi/checks.cpp), on devices (tests/cuda/device_engine_test).
#include "tests/parallel/support/combinations.h"

#include "tests/catch.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

void check_all(const std::vector<Combination>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i]);
    CombinedRun run(all[i]);
    const Outcome engine = run.by_threads(i % 2), serial = run.serially();
    check_same_bits(engine, serial);
  }
}

}  // namespace

TEST_CASE("every combination of choices, in the schedules of today", "[combinations][chunked]") {
  const std::vector<Combination> all = combinations_of_today();
  CHECK(all.size() == 300);
  check_all(fewer(all));
}

TEST_CASE("every combination of choices, in endless plans", "[combinations][endless]") {
  const std::vector<Combination> all = endless_combinations();
  CHECK(all.size() == 504);
  check_all(fewer(all));
}
