// What the checked build says of the two faults that chapter 12 has shown by their results only.
// Not here: all that it finds (the other files of this folder).
#include "tests/catch.h"
#include "tests/cuda/chapter_faults.h"

using namespace plangrad;
using namespace plangrad::tests;

TEST_CASE("checked: chapter 12: a forgotten barrier and a forgotten event") {
  Machine machine(faulty());
  DeviceArray<float> x(std::vector<float>(128)), y(128);
  cuda::launch(differences, 1, 128, 0, nullptr, x, y, false);
  PG_CUDA(cudaDeviceSynchronize());
  CHECK(cuda::emulator::reset() == "");
  cuda::launch(differences, 1, 128, 0, nullptr, x, y, true);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  check_report("fault_checked_barrier", cuda::emulator::reset());

  CHECK(doubled(false) == 2);
  CHECK_THROWS(doubled(true));
  check_report("fault_checked_event", cuda::emulator::reset());
}
