// Message-driven plans: the engine departs from the order of the rows when messages do, what ran is
// a plan, and no bit depends on it.
// Not here: the whole grid of layouts, which engine_test runs as of all schedules.
#include <condition_variable>

#include "parallel/plan/timeline.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// The last of three stages does not begin until the stage before it has run three forwards: it
/// then posts the receive of the fourth's input, whose shape it asks for.
class SlowLastStage : public SmallBatches {
 public:
  SlowLastStage() : SmallBatches(small_gpt()) {}
  Shape shape(int micro) const override {
    std::lock_guard lock(mutex_);
    if (micro == 3) asked_ = true;
    changed_.notify_all();
    return SmallBatches::shape(micro);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    std::unique_lock lock(mutex_);
    if (micro == 0) changed_.wait_for(lock, std::chrono::seconds(15), [this] { return asked_; });
    return SmallBatches::targets(micro, device);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool asked_ = false;
};

std::vector<std::vector<int>> orders_of(const Outcome& outcome) {
  std::vector<std::vector<int>> orders;
  for (const RunResult& rank : outcome.last) orders.push_back(rank.order);
  return orders;
}

std::ptrdiff_t place(const Row& row, const std::string& word) {
  return std::find(row.begin(), row.end(), parse_instruction(word)) - row.begin();
}

}  // namespace

TEST_CASE("message-driven: a rank runs what has come, and what ran is a plan with the same bits") {
  const Layout layout{.stages = 3, .width = 1, .microbatches = 5, .steps = 1};
  Training training = small_training(3);
  const auto plans = plans_of("message-driven", layout);
  SlowLastStage slow;
  const Outcome driven = run_by_engine(training, plans, slow, 2);
  const Plan ran = plan_as_it_ran(plans[0].plan(), orders_of(driven));
  INFO(print(ran));
  CHECK(ran.in_flight == 0);
  const Row& middle = ran.rows[1];
  CHECK(place(middle, "1F2v0") < place(middle, "1B0v0"));  // 1F1B: the other way round
  CHECK(place(plans[0].plan().rows[1], "1F2v0") > place(plans[0].plan().rows[1], "1B0v0"));

  const VerifiedPlan again = verify(ran);
  for (int most : again.facts().peak_microbatches) CHECK(most <= 3);
  SmallBatches batches(small_gpt());
  for (const Outcome& outcome :
       {run_by_engine(training, {again}, batches, 0), run_serially(training, {again}, batches),
        run_serially(training, plans_of("1f1b", layout), batches)}) {
    check_same_bits(outcome, driven);
  }
}

TEST_CASE("message-driven: the lines of a row") {
  const Plan plan = make_plan("message-driven", {.stages = 2, .microbatches = 3});
  DrivenOrder order(plan, plan.rows[0]);
  std::string words;
  auto run = [&](int cell) {
    words += print(plan.rows[0][cell]) + " ";
    order.ran(cell);
  };
  // Forwards first, as long as there are any: two may be in flight.
  for (auto cells = order.next(); !cells.empty(); cells = order.next()) run(cells.back());
  CHECK(words == "0g0<1 0F0v0 0a0>1 0F1v0 0a1>1 0B0v0 0g1<1 0g2<1 0F2v0 0a2>1 0B1v0 0B2v0 0Sv1 ");
}

TEST_CASE("rule driven: rows of two lines of work", "[verify]") {
  const std::string text =
      "stages 1 per_step 2 steps 1 in_flight 2 keep 1\n0F0v0 0F1v0 0B0v0 0B1v0 0Sv1\n";
  CHECK_NOTHROW(verify(parse(text)));
  check_refused(replaced(text, "0F0v0 0F1v0", "0F1v0 0F0v0"), "driven", 0, "0B0v0",
                "the order of its forwards");
  check_refused(replaced(text, "0B1v0", "0I1v0 0W1v0"), "driven", 0, "0I1v0", "whole backwards");
  check_refused("stages 1 per_step 1 steps 0 in_flight 1 keep 1\n0F0v0\n", "shape", -1, "",
                "in_flight bounds forwards by backwards");
  const std::string two =
      "stages 2 per_step 1 steps 1 in_flight 1 keep 1\n"
      "0F0v0 1F0v0 1B0v0 0B0v0 1Sv1 0Sv1\n";
  check_refused(two, "driven", 0, "1F0v0", "computes one stage");
}
