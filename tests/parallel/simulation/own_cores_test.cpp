// A measured plan on cores of its own, by hand.
#include "parallel/simulation/variants.h"

#include "parallel/transports/pack.h"
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

const char* const two_ranks =
    "stages 2 per_step 1 steps 1\n"
    "0F0v0 0a0>1 0g0<1 0B0v0 0Sv1\n"
    "0a0<0 1F0v0 1B0v0 0g0>0 1Sv1\n";

Record computed(int rank, const char* text, double cpu) {
  return {rank, Lane::compute, parse_instruction(text), 0, 100, 0, cpu};
}

Timeline measured() {
  return with_cells(parse(two_ranks), {2,
                                       {computed(0, "0F0v0", 1), computed(0, "0B0v0", 2),
                                        computed(0, "0Sv1", 0.5), computed(1, "1F0v0", 3),
                                        computed(1, "1B0v0", 4), computed(1, "1Sv1", 0.25)}});
}

}  // namespace

TEST_CASE("own cores: each computation takes its CPU time, messages what they cost", "[cores]") {
  Costs costs;
  costs.forward = costs.backward = costs.step = {1000};  // not used
  costs.slowness = {7};                                  // nor this
  costs.latency = 0.125;
  const Timeline timeline = on_own_cores(verify(parse(two_ranks)), measured(), costs);
  // 1 + 0.125, then 3 + 4 on rank 1, 0.125 back, then 2 + 0.5.
  CHECK(timeline.makespan() == 10.75);
  CHECK(timeline.bubble() == Approx(1 - 10.75 / (2 * 10.75)));
}

TEST_CASE("own cores: a repeated forward takes its own time", "[cores]") {
  const VerifiedPlan plan =
      verify(parse("stages 1 per_step 1 steps 1\n0F0v0 0Da0 0F0v0 0B0v0 0Sv1\n"));
  const Timeline timeline =
      with_cells(plan.plan(), {1,
                               {computed(0, "0F0v0", 1), computed(0, "0F0v0", 2),
                                computed(0, "0B0v0", 4), computed(0, "0Sv1", 8)}});
  const Timeline result = on_own_cores(plan, timeline, {});
  CHECK(result.makespan() == 15);
  CHECK(find(result, 0, "0F0v0").end == 1);
}

TEST_CASE("own cores: a computation that was not measured is named", "[cores]") {
  Timeline incomplete = measured();
  incomplete.records.pop_back();
  CHECK_THROWS_WITH(on_own_cores(verify(parse(two_ranks)), incomplete, {}),
                    Contains("rank 1 was not measured at 1Sv1"));
}

TEST_CASE("CPU time travels between ranks with its record", "[cores]") {
  const Record record = computed(1, "1F0v0", 0.375);
  CHECK(unpack<std::vector<Record>>(pack(std::vector{record})).at(0).cpu == 0.375);
}
