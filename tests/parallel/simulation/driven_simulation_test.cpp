// Message-driven plans in the simulator: a rank takes what has come, by the simulated clock.
// Not here: the engine, which does so by its own (driven_test.cpp).

#include "autograd/random.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;
using plangrad::autograd::RandomKey;
using plangrad::autograd::text;

namespace {

/// So many between `low` and `high`.
std::vector<double> some_costs(int count, int seed, double low, double high) {
  std::vector<double> costs;
  for (int i = 0; i < count; ++i)
    costs.push_back(low + (high - low) * uniform(RandomKey(seed, "costs"), i));
  return costs;
}

/// The plan whose rows are what the timeline shows.
Plan as_run(Plan plan, const Timeline& timeline) {
  plan.in_flight = 0;
  for (Row& row : plan.rows) row.clear();
  for (const Record& record : timeline.records)
    plan.rows[record.rank].push_back(record.instruction);
  return plan;
}

bool passes(const Record& record) {
  return record.instruction.op == Op::forward || record.instruction.op == Op::backward;
}

/// One rank's forwards and backwards of one step, and when their inputs came.
struct Passes {
  std::vector<Record> records;
  std::map<int, double> activations, gradients;  // by microbatch

  Passes(const Timeline& timeline, int rank) {
    for (const Record& record : timeline.records) {
      if (record.rank != rank) continue;
      const Instruction& x = record.instruction;
      if (passes(record)) records.push_back(record);
      if (x.op != Op::recv) continue;
      (x.what == Value::activation ? activations : gradients)[x.micro] = record.end;
    }
  }
  /// Seconds; 0 if no message brings it.
  double input_of(const Instruction& x) const {
    const auto& inputs = x.op == Op::forward ? activations : gradients;
    auto found = inputs.find(x.micro);
    return found == inputs.end() ? 0 : found->second;
  }
  /// The first of the other kind that runs after number i.
  std::optional<Instruction> other_after(std::size_t i) const {
    for (std::size_t k = i; k < records.size(); ++k)
      if (records[k].instruction.op != records[i].instruction.op) return records[k].instruction;
    return {};
  }
};

/// Whoever is free runs the backward whose input has come, or else the forward, if few enough are
/// in flight; who has waited, what came first.
void check_choices(const Passes& passes, int in_flight) {
  int flying = 0;
  double free = 0;
  for (std::size_t i = 0; i < passes.records.size(); ++i) {
    const Record& record = passes.records[i];
    const auto other = passes.other_after(i);
    const bool forward = record.instruction.op == Op::forward;
    INFO(print(record.instruction) << " began at " << record.start);
    if (forward && other && flying > 0) CHECK(passes.input_of(*other) > record.start);
    if (!forward && other && flying < in_flight && record.start > free)
      CHECK(passes.input_of(*other) >= record.start);
    free = record.end;
    flying += forward ? 1 : -1;
    CHECK(flying <= in_flight);
  }
}

}  // namespace

TEST_CASE("simulate: a message-driven plan of two stages, by hand", "[simulate]") {
  const Layout layout{.stages = 2, .microbatches = 3, .in_flight = 3};
  const VerifiedPlan plan = verify(make_plan("message-driven", layout));
  const Timeline timeline = simulate(plan, {.backward = {1}, .latency = 2});
  std::string first, second;
  for (const Record& record : timeline.records)
    if (passes(record))
      (record.rank == 0 ? first : second) +=
          text(print(record.instruction), '@', record.start, ' ');
  // Rank 0 has three forwards to begin with. The third one's message begins at 6, when its receive
  // is posted, behind the second forward of rank 1; the second gradient's at 8, behind 0B0.
  CHECK(first == "0F0v0@0 0F1v0@1 0F2v0@2 0B0v0@7 0B1v0@10 0B2v0@12 ");
  CHECK(second == "1F0v0@3 1B0v0@4 1F1v0@5 1B1v0@6 1F2v0@8 1B2v0@9 ");
}

TEST_CASE("simulate: a message-driven rank runs what has come", "[simulate]") {
  int moved = 0;  // timelines whose order is not that of the rows
  for (int stages : {2, 3, 4})
    for (int in_flight : {1, stages, 2 * stages})
      for (int seed : {1, 2, 3}) {
        const Layout layout{.stages = stages, .microbatches = 7, .in_flight = in_flight};
        const VerifiedPlan plan = verify(make_plan("message-driven", layout));
        Costs costs{.forward = some_costs(stages, seed, 0.5, 2),
                    .backward = some_costs(stages, seed + 10, 0.5, 3),
                    .latency = 0.7 * seed};
        const Timeline timeline = simulate(plan, costs);
        for (int rank = 0; rank < stages; ++rank) check_choices(Passes(timeline, rank), in_flight);
        const Plan ran = as_run(plan.plan(), timeline);
        moved += ran.rows != plan.plan().rows;
        CHECK(simulate(verify(ran), costs).makespan() == timeline.makespan());
      }
  CHECK(moved > 10);
}

TEST_CASE("simulate: equal stages and no latency make message-driven runs 1F1B", "[simulate]") {
  for (int stages : {1, 2, 4}) {
    const Layout layout{.stages = stages, .width = 2, .microbatches = 8, .steps = 2};
    const Costs costs{.forward = {1}, .backward = {2}};
    CHECK(simulate(verify(make_plan("message-driven", layout)), costs).makespan() ==
          simulate(verify(make_plan("1f1b", layout)), costs).makespan());
  }
}
