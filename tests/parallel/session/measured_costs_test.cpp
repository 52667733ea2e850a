// Costs that a run measured, against a timeline by hand.
#include "parallel/session/report_window.h"

#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace paragrad::parallel;

namespace {

Record computed(const char* text, double seconds) {
  return {0, Lane::compute, parse_instruction(text), 10, 10 + seconds};
}

}  // namespace

TEST_CASE("measured costs: whole backwards and their parts have medians of their own", "[costs]") {
  const Plan plan = parse(
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 1F0v0 1I0v0 0B0v0 1W0v0 0F1v0 1F1v0 1I1v0 0B1v0 1W1v0 0Sv1 1Sv1\n");
  const Costs costs = measured_costs(
      plan, {1,
             {computed("0F0v0", 2), computed("1F0v0", 1), computed("1I0v0", 4),
              computed("0B0v0", 9), computed("1W0v0", 16), computed("0F1v0", 2),
              computed("1F1v0", 1), computed("1I1v0", 4), computed("0B1v0", 9),
              computed("1W1v0", 16), computed("0Sv1", 0.5), computed("1Sv1", 0.25)}});
  using List = std::vector<double>;
  CHECK(costs.forward == List{2, 1});
  CHECK(costs.backward == List{9, 0});
  CHECK(costs.input_part == List{0, 4});
  CHECK(costs.weight_part == List{0, 16});
  CHECK(costs.step == List{0.5, 0.25});
  CHECK(simulate(verify(plan), costs).makespan() == 2 * (2 + 1 + 4 + 9 + 16) + 0.75);
}
