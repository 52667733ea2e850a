// Cyclic plans by the engine, by the serial interpreter, and by the update rule written out with
// the whole model in one stage: the same bits. And their memory and their messages.

#include "parallel/plan/lifetimes.h"
#include "tests/catch.h"
#include "tests/parallel/support/cyclic_cases.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::tests;

namespace {

const std::vector<std::string> travelling{"data", "pipeline", "model", "zero"};

/// Two steps of three microbatches, v2.
Plan example(const std::string& setting) { return parse(plan_text("cyclic_v2_" + setting)); }

/// The golden plan's steps once more, two steps later. They begin with two versions, of which each
/// microbatch now reads the one that v2 gives it.
Plan continued(Plan plan) {
  plan = later_plan(std::move(plan), 2);
  for (Row& row : plan.rows)
    for (Instruction& x : row)
      if ((x.op == Op::forward || x.op == Op::backward) && x.micro < 9)
        x.version = x.micro % 3 + x.stage >= 2 ? 2 : 1;
  return plan;
}

/// Serial and parallel runs of the plans, and so many steps of the rule.
void compare(const std::vector<VerifiedPlan>& plans, bool adamw, int steps) {
  Training training = cyclic_training(3, adamw);
  SmallBatches batches(small_gpt());
  const auto expected = ruled(training, "v2", batches, steps);
  Outcome serial = run_serially(training, plans, batches);
  REQUIRE(!serial.weights.empty());
  for (const auto& [name, weights] : serial.weights) CHECK(weights == expected[name.second]);
  for (int capacity : {0, 2}) {
    Outcome parallel = run_by_engine(training, plans, batches, capacity);
    check_same_bits(parallel, serial);
  }
}

/// Bytes of a stage's weights; of its gradient sums as well.
std::int64_t bytes_of(const Training& training, int stage) {
  Stage part(training.model, training.cuts[stage], training.cuts[stage + 1]);
  return 4 * part.parameters().numel();
}

/// The most bytes of weights alive together, from the row alone.
std::int64_t predicted_peak(const Training& training, const Plan& plan, int rank) {
  const Row& row = plan.rows[rank];
  const std::set<int> held = held_stages(plan)[rank];
  Lifetimes lifetimes(plan, rank, tied_versions(plan));
  std::set<std::pair<int, int>> alive;
  for (int stage : held) alive.insert({stage, plan.first});
  std::int64_t peak = 0;
  for (int index = 0; index < static_cast<int>(row.size()); ++index) {
    const Instruction& x = row[index];
    if (x.op == Op::step && !lifetimes.needed_after(x.stage, x.version - 1, index))
      alive.erase({x.stage, x.version - 1});
    if (x.op == Op::step || (x.op == Op::recv && x.what == Value::weights))
      alive.insert({x.stage, x.version});
    std::int64_t bytes = 0;
    for (auto [stage, version] : alive) bytes += bytes_of(training, stage);
    peak = std::max(peak, bytes);
    if (x.op == Op::drop) alive.erase({x.stage, x.version});
    for (const auto& ended : lifetimes.ending_at(index)) alive.erase(ended);
  }
  return peak;
}

}  // namespace

TEST_CASE("cyclic plans give the bits of the serial interpreter and of the rule", "[cyclic]") {
  for (const std::string& setting : travelling)
    for (bool adamw : {false, true}) {
      INFO(setting << (adamw ? " adamw" : " sgd"));
      compare({verify(example(setting))}, adamw, 2);
    }
}

TEST_CASE("cyclic plans follow each other with two versions", "[cyclic]") {
  for (const char* setting : {"data", "pipeline", "model"})
    for (bool adamw : {false, true}) {
      INFO(setting << (adamw ? " adamw" : " sgd"));
      compare({verify(example(setting)), verify(continued(example(setting)))}, adamw, 4);
    }
}

TEST_CASE("the cyclic rules differ", "[cyclic]") {
  Training training = cyclic_training(3, true);
  SmallBatches batches(small_gpt());
  CHECK(ruled(training, "v1", batches) != ruled(training, "v2", batches));
}

TEST_CASE("weights of cyclic plans take as much memory as the plan says", "[cyclic][memory]") {
  Training training = cyclic_training(3, true);
  SmallBatches batches(small_gpt());
  std::int64_t largest = 0;
  for (int stage : {0, 1, 2}) largest = std::max(largest, bytes_of(training, stage));
  for (const std::string& setting : travelling) {
    VerifiedPlan plan = verify(example(setting));
    const auto held = held_stages(plan.plan());
    Outcome outcome = run_by_engine(training, {plan}, batches);
    for (int rank = 0; rank < plan.plan().ranks(); ++rank) {
      INFO(setting << " rank " << rank);
      std::int64_t own = 0;
      for (int stage : held[rank]) own += bytes_of(training, stage);
      CHECK(outcome.live[rank].at(Category::weights) == 2 * own);  // what the next plan needs
      CHECK(outcome.live[rank].at(Category::gradients) == 0);
      CHECK(outcome.peak_weights[rank] == predicted_peak(training, plan.plan(), rank));
      if (setting == "zero")
        CHECK(outcome.peak_weights[rank] <= 5 * largest);
      else
        CHECK(outcome.peak_weights[rank] == plan.facts().live_versions[rank] * own);
    }
  }
}

TEST_CASE("cyclic plans send what they list", "[cyclic]") {
  Training training = cyclic_training(3, true);
  SmallBatches batches(small_gpt());
  for (const std::string& setting : travelling) {
    INFO(setting);
    Plan plan = example(setting);
    std::int64_t sums = 0, weights = 0;
    for (const Row& row : plan.rows)
      for (const Instruction& x : row) {
        if (x.op != Op::send) continue;
        if (x.what == Value::gradient_sum) sums += bytes_of(training, x.stage);
        if (x.what == Value::weights) weights += bytes_of(training, x.stage);
      }
    std::map<std::string, std::int64_t> sent;
    for (const RunResult& rank : run_by_engine(training, {verify(plan)}, batches).last)
      for (const auto& [kind, bytes] : rank.bytes_sent) sent[kind] += bytes;
    CHECK(sent["gradient sums"] == sums);
    CHECK(sent["weights"] == weights);
    CHECK(sent["turns"] == 0);
  }
}

TEST_CASE("each stage's gradient is counted once, whoever steps it", "[cyclic]") {
  Training training = cyclic_training(3, true);
  SmallBatches batches(small_gpt());
  std::map<int, std::vector<double>> expected;
  for (const std::string& setting : travelling) {
    INFO(setting);
    std::map<int, std::vector<double>> squares;
    for (const RunResult& rank : run_by_engine(training, {verify(example(setting))}, batches).last)
      for (const auto& [version, sums] : rank.squares) {
        auto& all = squares[version];
        all.resize(sums.size());
        std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
      }
    if (expected.empty()) expected = squares;
    REQUIRE(squares.size() == 2);
    CHECK(squares == expected);
  }
}

TEST_CASE("a sum that goes round is counted once in the norm", "[cyclic]") {
  const std::string header = "stages 1 per_step 2 steps 1 clip 1 keep 1 groups 0,1";
  const std::string ring = header +
                           "\n0F0v0 0B0v0 0p0>1 0p1<1 Rnv1@0 0Sv1"
                           "\n0F1v0 0p0<0 0B1v0 0R1 Rnv1@0 0p1>0 0Sv1";
  const std::string home = header + " home 0" +
                           "\n0wv0>1 0F0v0 0B0v0 0p0>1 0p1<1 Rnv1@0 0Sv1"
                           "\n0wv0<0 0F1v0 0p0<0 0B1v0 0R1 0p1>0 0Dwv0 Rnv1@0";
  Training training(gpt(small_gpt(false)), 1);
  training.clip = 0.3;
  Layout layout{.stages = 1, .microbatches = 2, .steps = 1, .clip = true};
  SmallBatches batches(small_gpt());
  WholeModel model(training, layout, batches);
  const Tensor w = model.first();
  const Tensor expected = model.update(w, model.gradient(w, 0), 1);
  REQUIRE(model.norms.at(1) > training.clip);  // else nothing is clipped
  for (const std::string& text : {ring, home}) {
    INFO(text);
    std::vector<VerifiedPlan> plans{verify(parse(text))};
    for (const Outcome& outcome :
         {run_serially(training, plans, batches), run_by_engine(training, plans, batches, 0),
          run_by_engine(training, plans, batches, 2)}) {
      CHECK(outcome.weights.at({0, 0}) == model.part(expected, 0));
      if (!outcome.norms.empty()) CHECK(outcome.norms.at(1) == model.norms.at(1));
    }
  }
}
