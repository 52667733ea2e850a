// Activations that are alive in the round dance: constant over all ranks, also where a rank is
// slower, thanks to turns; and on each rank the verifier's count is the meter's, in bytes.
// Not here: other counts of time steps (time_steps_test), weights (cyclic_plan_test).

#include "autograd/backend.h"
#include "parallel/simulation/simulate.h"
#include "parallel/simulation/time_steps.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

constexpr int updates = 24;

Plan plan_of(Setting setting, int n, const char* schedule = "cyclic-v2") {
  return make_plan(schedule, {.stages = n, .steps = updates, .setting = setting});
}

/// Without the turns of microbatches from `first` on.
Plan without_turns(Plan plan, int first = 0) {
  for (Row& row : plan.rows)
    std::erase_if(row, [=](const auto& x) { return x.what == Value::turn && x.micro >= first; });
  return plan;
}

struct Alive {
  int lowest = 1 << 20, highest = 0;
  double mean = 0;  ///< over time
};

/// In the second half, less the last update, with one rank that takes so many times as long.
Alive alive(const Plan& plan, int slow_rank = 0, double slowness = 1) {
  Costs costs{.backward = {1}};
  costs.slowness.assign(plan.ranks(), 1);
  costs.slowness.at(slow_rank) = slowness;
  const Timeline timeline = simulate_unverified(plan, costs);
  std::map<int, double> starts;  // of stage 0's forwards, by microbatch
  for (const Record& x : timeline.records)
    if (x.instruction.op == Op::forward && x.instruction.stage == 0)
      starts[x.instruction.micro] = x.start;
  const double from = starts.at(updates / 2 * plan.per_step);
  const double to = starts.at((updates - 1) * plan.per_step);
  const std::vector<Level> levels = activations_alive(timeline);
  Alive result;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    double seconds = std::min(levels[i + 1].seconds, to) - std::max(levels[i].seconds, from);
    if (seconds < 1e-6) continue;
    result.lowest = std::min(result.lowest, levels[i].count);
    result.highest = std::max(result.highest, levels[i].count);
    result.mean += levels[i].count * seconds / (to - from);
  }
  return result;
}

// ---- for the meter ----

constexpr int width = 4;
constexpr std::int64_t stage_bytes = 1 << 16;

/// y = x + bias, and `stage_bytes` in all that live until the backward is done.
class Heavy : public Layer {
 public:
  Heavy(ParameterList& list, const std::string& name)
      : bias_(list.add(name, {width}, Init::normal(1))) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    Tensor kept = empty({stage_bytes / 4}, DType::f32, x.device());
    const Tensor y = kept.window(0, x.shape());
    x.backend().binary(Binary::add, x, bias_.value, y);
    return record(y, "heavy", {x, bias_.value},
                  [kept, shape = bias_.shape](const Tensor& dy) -> std::vector<Tensor> {
                    return {dy, dy.window(0, shape)};
                  });
  }

 private:
  Parameter& bias_;
};

Training heavy(int stages) {
  Model model;
  for (int stage = 0; stage < stages; ++stage) {
    const std::string name = text("heavy.", stage);
    auto build = [=](ParameterList& list) { return std::make_unique<Heavy>(list, name); };
    model.push_back({name, build, 1, [](const Shape& x) { return x; }});
  }
  Training training(model, stages);
  training.clip = 0;
  return training;
}

class OneExample : public Batches {
  Shape shape(int) const override { return {1, width}; }
  Tensor inputs(int, const DevicePtr& device) override {
    return zeros({1, width}, DType::f32, device);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return from_host(std::vector<std::int32_t>{micro % width}, {1}, device);
  }
};

/// Beside a stage's activations: inputs, the loss and what is sent, a few bytes a microbatch.
void check_bytes(const std::string& schedule, const Layout& layout) {
  const std::vector<VerifiedPlan> plans = plans_of(schedule, layout);
  OneExample batches;
  const Outcome outcome = run_by_engine(heavy(layout.stages), plans, batches);
  const std::vector<int>& peak = plans[0].facts().peak_microbatches;
  for (std::size_t rank = 0; rank < peak.size(); ++rank) {
    CAPTURE(rank);
    CHECK(outcome.peak_activations[rank] / stage_bytes == peak[rank]);
    CHECK(outcome.peak_activations[rank] % stage_bytes < stage_bytes / 50);
  }
}

}  // namespace

TEST_CASE("cyclic: N(N+1)/2 activations are alive at every moment, in every setting",
          "[cyclic][alive]") {
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (const auto& [name, setting] : settings())
      for (int n : {2, 3, 4, 8}) {
        if (setting == Setting::one_device) continue;  // has no time steps: all is in one row
        INFO(schedule << ' ' << name << ", N = " << n);
        const Alive dance = alive(plan_of(setting, n, schedule));
        CHECK(dance.lowest == n * (n + 1) / 2);
        CHECK(dance.highest == n * (n + 1) / 2);
      }
}

TEST_CASE("cyclic: the dance goes on where one rank is 10% slower", "[cyclic][alive]") {
  const double slowness = 1.1;
  for (int n : {2, 3, 4, 8}) {
    const int constant = n * (n + 1) / 2;
    // What a slow rank is late by, in time steps, at the end of a microbatch.
    const int late = static_cast<int>(std::ceil((slowness - 1) * 2 * n));
    for (const auto& [name, setting] : settings()) {
      if (setting == Setting::one_device) continue;
      const Plan plan = plan_of(setting, n);
      for (int slow = 0; slow < plan.ranks(); ++slow) {
        INFO(name << ", N = " << n << ", slow rank " << slow);
        const Alive dance = alive(plan, slow, slowness);
        CHECK(dance.lowest >= constant - n);  // a rank is a stage behind at most
        // The others are at least two time steps apart, as without it. Where microbatches pass from
        // rank to rank, they wait for each other anyhow. Where weights do, with turns at the start
        // alone, a rank can be a stage ahead.
        bool passes = setting == Setting::pipeline || setting == Setting::model;
        int more = passes ? 0 : setting == Setting::data ? late : n;
        CHECK(dance.highest <= constant + more);
        if (setting != Setting::data) continue;
        // A microbatch's N(N+1) on a fast rank last as long as ever, the update is longer.
        CHECK(dance.mean >= constant * ((n - 1) / slowness + 1) / n - 1e-6);
        CHECK(dance.mean < constant);
      }
    }
  }
}

TEST_CASE("cyclic: without turns at every microbatch the dance breaks down", "[cyclic][alive]") {
  for (int n : {2, 3, 4, 8}) {
    INFO("N = " << n);
    const Plan plan = plan_of(Setting::data, n);
    // All ranks side by side: data parallelism's saw-tooth.
    const Alive together = alive(without_turns(plan));
    CHECK(together.lowest == n);
    CHECK(together.highest == n * n);
    // The same where only the beginning was right: fast ranks come up with the slow one.
    Alive later;
    for (int slow = 0; slow < n; ++slow)
      later.highest =
          std::max(later.highest, alive(without_turns(plan, /*first*/ n), slow, 1.1).highest);
    CHECK(later.highest == n * n);
  }
}

TEST_CASE("cyclic: the meter's activations of a rank are the verifier's, in bytes",
          "[cyclic][alive][memory]") {
  for (int n : {1, 2, 3, 4, 8}) {
    for (const auto& [name, setting] : settings()) {
      if (n == 8 && setting == Setting::model) continue;  // 36 ranks
      for (const char* schedule : {"cyclic-v1", "cyclic-v2"}) {
        INFO(schedule << ' ' << name << ", N = " << n);
        check_bytes(schedule, {.stages = n, .steps = 3, .setting = setting});
      }
    }
    INFO("data, N = " << n);
    check_bytes("data", {.stages = n, .width = n, .steps = 2});
  }
}
