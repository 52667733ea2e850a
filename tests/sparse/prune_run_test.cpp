// Runs that are pruned on their way: when each method looks, and that both forms learn the same; a
// lottery's round begins anew with what it keeps.
// Not here: masks (pruning_test.cpp), one change of form (changed_form_test.cpp).
#include "sparse/prune_run.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

/// All looks until so many updates. Every number of updates must know the next of them.
std::vector<int> looks(const PruneRun& pruner, int until) {
  std::vector<int> found;
  for (int steps = 0; steps <= until; ++steps) {
    const int next = pruner.next_pruning(steps);
    CHECK(next >= steps);
    if (next == steps) found.push_back(steps);
    if (next > steps) CHECK(next == pruner.next_pruning(steps + 1));
  }
  return found;
}

PruneSettings settings_of(const std::string& method, double fraction, int after, int every,
                          int until = 1) {
  PruneSettings settings{.fraction = fraction, .method = method};
  settings.after = after, settings.every = every, settings.until = until;
  return settings;
}

std::vector<int> looks(const PruneSettings& settings, int until) {
  return looks(PruneRun(settings), until);
}

}  // namespace

TEST_CASE("a lottery's rounds prune 20% of what is left") {
  for (auto [fraction, rounds] : {std::pair(0.2, 1), {0.36, 2}, {0.5, 4}, {0.9, 11}, {0.1, 1}})
    CHECK(lottery_rounds(fraction) == rounds);
}

TEST_CASE("a run is looked at when its method says, and not again") {
  using Steps = std::vector<int>;
  for (const char* method : {"magnitude", "global", "random"}) {
    CHECK(looks(settings_of(method, 0.9, 0, 2), 20) == Steps{0});
    CHECK(looks(settings_of(method, 0.9, 7, 2), 20) == Steps{7});
  }
  CHECK(looks(settings_of("gradual", 0.9, 0, 4, 12), 20) == Steps{4, 8, 12});
  CHECK(looks(settings_of("gradual", 0.9, 4, 3, 12), 20) == Steps{7, 10, 12});
  CHECK(looks(settings_of("gradual", 0.9, 4, 9, 12), 20) == Steps{12});
  CHECK(looks(settings_of("lottery", 0.5, 0, 1), 20) == Steps{0, 1, 2, 3, 4});
  CHECK(looks(settings_of("lottery", 0.5, 3, 2), 20) == Steps{3, 5, 7, 9, 11});
  CHECK(looks(settings_of("early-bird", 0.5, 0, 5), 20) == Steps{0, 5, 10, 15, 20});
  CHECK(looks(settings_of("early-bird", 0.5, 4, 3), 14) == Steps{4, 7, 10, 13});
}

TEST_CASE("nobody looks for a ticket that is found") {
  const Training training = training_of(CodedRun{.schedule = "data"});
  const Plan plan = make_plan("data", {.stages = 2, .steps = 1});
  PruneRun pruner(settings_of("early-bird", 0.5, 3, 2));
  run_ranks(1, [&](Transport& transport) {
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    engine.prepare(plan);
    // Weights that stay as they are: the sixth mask is that of five before.
    for (int steps : {3, 5, 7, 9, 11}) {
      PG_CHECK(!pruner.maybe_prune(engine, plan, steps).contains("pruned"), "found after ", steps);
      PG_CHECK(pruner.next_pruning(steps + 1) == steps + 2, "no look after ", steps + 2);
    }
    PG_CHECK(pruner.maybe_prune(engine, plan, 13).contains("pruned"), "not found after 13");
  });
  for (int steps : {0, 3, 13, 14, 15, 99}) CHECK(pruner.next_pruning(steps) == Border::never);
}

namespace {

/// All elements of a stage's newest version.
std::vector<double> all_elements(const WeightStore& store) {
  const Tensor stored = store.versions().at(store.newest());
  const Tensor all = empty({store.form().parameters().numel()}, stored.dtype(), stored.device());
  store.form().expand(stored, all);
  return to_host(all);
}

/// What is left of a run that may be looked at after each plan. To the pruner a plan is an update.
struct Left {
  StageWeights weights;
  std::map<int, double> losses;
  std::vector<double> kept;  ///< after each look that pruned
};

Left pruned_by(const PrunedRun& run, PruneSettings settings, bool samo) {
  Pruned pruned(run, 6, 2);
  pruned.training.form = nullptr;
  settings.samo = samo;
  Left left;
  std::mutex mutex;
  run_ranks(pruned.plans[0].plan().ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(pruned.training, transport, cpu_device(), {.timeout = 20});
    PruneRun pruner(settings);
    for (int done = 1; done <= static_cast<int>(pruned.plans.size()); ++done) {
      const VerifiedPlan& plan = pruned.plans[done - 1];
      const RunResult result = engine.run(plan, pruned.batches);
      nlohmann::json found;
      if (pruner.next_pruning(done) == done) found = pruner.maybe_prune(engine, plan.plan(), done);
      std::lock_guard lock(mutex);
      left.losses.insert(result.losses.begin(), result.losses.end());
      if (transport.rank() == 0 && found.contains("kept")) left.kept.push_back(found["kept"]);
    }
    std::lock_guard lock(mutex);
    for (const auto& [stage, store] : engine.stores())
      left.weights[{stage, transport.rank()}] = all_elements(store);
  });
  return left;
}

/// Those that keep more than one version or move weights between ranks, and one of the others.
std::vector<PrunedRun> runs_on_the_way() {
  std::vector<PrunedRun> runs;
  auto add = [&](const std::string& schedule, Setting setting, int zero = 0) {
    runs.emplace_back();
    runs.back().schedule = schedule;
    runs.back().setting = setting;
    runs.back().zero = zero;
    runs.back().all = runs.size() % 2 == 0;
  };
  for (const char* schedule : {"2bw", "pipedream", "1f1b"}) add(schedule, Setting::data);
  for (const auto& [name, setting] : settings()) add("cyclic-v2", setting);
  add("2bw", Setting::data, 1);
  return runs;
}

}  // namespace

TEST_CASE("a run that is pruned more and more learns the same in both forms", "[samo]") {
  // Four looks; the lottery remembers at the first, and has three rounds.
  for (const PruneSettings& settings :
       {settings_of("gradual", 0.8, 1, 1, 5), settings_of("lottery", 0.48, 2, 1)})
    for (PrunedRun run : fewer(runs_on_the_way())) {
      INFO(settings.method << ": " << run);
      PruneSettings own = settings;
      own.all = run.all;
      const Left samo = pruned_by(run, own, true), masked = pruned_by(run, own, false);
      const bool same = samo.weights == masked.weights;
      CHECK(same);
      CHECK(samo.losses == masked.losses);
      CHECK(samo.kept == masked.kept);
      CHECK(samo.kept.size() == (own.method == "gradual" ? 4 : 3));
      for (std::size_t i = 1; i < samo.kept.size(); ++i) CHECK(samo.kept[i] < samo.kept[i - 1]);
    }
}
