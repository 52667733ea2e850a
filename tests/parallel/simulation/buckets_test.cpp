// What remains of a sum's time in data parallelism when stages are its buckets: the plan says when
// each sum can begin, the simulator when it ends.
// Not here: that a run does the same (tests/cuda), the choice of four
// (examples/programs/run_layout).
// Chapter 05; Li et al. 2020, section 3.2.

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

/// The part of an update during which nothing is computed. Forward and backward take 1 and 2
/// seconds, all sums together `sums`, and of these the tied tensor's takes `tied`.
double exposed(int stages, double sums, double tied = 0) {
  const Layout layout{.stages = stages, .width = 4, .steps = 1, .tied = tied > 0};
  Costs costs;
  costs.forward = {1.0 / stages};
  costs.backward = {2.0 / stages};
  costs.bandwidth = 1.5e6;  // a ring of four ranks takes a second for each million bytes
  costs.sums.how = AllReduce::ring;
  const auto bytes = [](double seconds) { return static_cast<std::int64_t>(1e6 * seconds); };
  costs.weight_bytes.assign(stages, bytes((sums - tied) / stages));
  if (tied > 0) costs.weight_bytes.push_back(bytes(tied));
  return simulate(verify(make_plan("data", layout)), costs).makespan() - 3;
}

}  // namespace

TEST_CASE("buckets: all sums but the last overlap with the backward of stages before theirs") {
  for (int stages : {1, 4, 8}) {
    CAPTURE(stages);
    // A sum is hidden by the backward beside it, or they queue up behind the first backward.
    for (double sums : {0.4, 1.6, 4.0})
      CHECK(exposed(stages, sums) ==
            Approx(std::max(sums / stages, sums - 2.0 * (stages - 1) / stages)).margin(1e-5));
  }
}

TEST_CASE("buckets: a tied tensor has its gradient last, and its sum is exposed") {
  CHECK(exposed(4, 1.0, 0.3) == Approx(0.3 + 0.7 / 4).margin(1e-5));
  CHECK(exposed(8, 1.0, 0.3) == Approx(0.3 + 0.7 / 8).margin(1e-5));
}
