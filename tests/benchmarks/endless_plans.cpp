// How long the verifier takes for all lengths of a plan at once, and for one length of 200 updates.
// Not here: time of a run (engine.cpp).
#include <fmt/format.h>

#include <chrono>

#include "parallel/schedules/schedule.h"
#include "parallel/verifier/verify.h"

namespace {

using namespace plangrad::parallel;

/// The shortest of several measurements, in seconds.
double seconds_to_verify(const Plan& plan) {
  double shortest = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    verify(plan);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, taken.count());
  }
  return shortest;
}

}  // namespace

int main() {
  const Layout layout{.stages = 8, .microbatches = 8, .steps = 200};
  const double endless = seconds_to_verify(make_endless("2bw", layout).value());
  const double one_length = seconds_to_verify(make_plan("2bw", layout));
  fmt::print(
      "2bw, 8 stages, 8 microbatches: all lengths {:.2f} ms, 200 updates {:.1f} ms, {:.0f}x\n",
      1e3 * endless, 1e3 * one_length, one_length / endless);
}
