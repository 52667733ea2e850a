// A round of a lottery goes back: from then on the run is one that begins with the ticket, which is
// the remembered weights times the mask, an optimizer without a past and its first step.
// Not here: when rounds are (prune_run_test.cpp). Frankle and Carbin 2019.
#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "sparse/prune_run.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

/// The microbatches of a run from one of its microbatches on.
class Later : public Batches {
 public:
  Later(Batches& batches, int first) : batches_(batches), first_(first) {}
  Shape shape(int micro) const override { return batches_.shape(first_ + micro); }
  Tensor inputs(int micro, const DevicePtr& device) override {
    return batches_.inputs(first_ + micro, device);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return batches_.targets(first_ + micro, device);
  }

 private:
  Batches& batches_;
  int first_;
};

/// Of this rank's stages.
std::shared_ptr<const Masks> masks_of(Engine& engine) {
  Masks masks;
  for (const auto& [stage, store] : engine.stores())
    for (const Parameter& p : store.form().pruned()) {
      const auto index = to_host(store.form().index().window(p.offset, p.shape));
      masks[p.name].assign(index.begin(), index.end());
    }
  return std::make_shared<const Masks>(std::move(masks));
}

/// Newest weights and the optimizer's state by name, of each stage of this rank.
using State = std::map<std::pair<int, std::string>, std::vector<double>>;
State state_of(Engine& engine) {
  State state;
  for (auto& [stage, store] : engine.stores()) {
    state[{stage, "weights"}] = to_host(store.versions().at(store.newest()));
    for (const auto& [name, values] : store.optimizer().state())
      state[{stage, name}] = to_host(values);
  }
  return state;
}

void check_same(const State& state, const State& expected, const char* when) {
  for (const auto& [where, values] : expected)
    PG_CHECK(state.at(where) == values, when, ", stage ", where.first, " has other ", where.second);
}

/// Remembers the first weights, and compares the run after its first round with one that begins
/// with the masks that the round found. Rates don't change, or they would differ.
void check_rewound(const PrunedRun& run, bool samo) {
  Pruned pruned(run, 2, 2);
  Training& training = pruned.training;
  training.learning_rate = {0.02, 0.02, 0, 1};
  training.form = nullptr;
  const Plan& plan = pruned.plans[0].plan();
  PruneSettings settings{.fraction = 0.5, .method = "lottery", .samo = samo, .after = 0};
  settings.every = 2;
  run_ranks(plan.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    PruneRun pruner(settings);
    engine.prepare(plan);
    pruner.maybe_prune(engine, plan, 0);
    engine.run(pruned.plans[0], pruned.batches);
    const State trained = state_of(engine);
    pruner.maybe_prune(engine, plan, 2);
    Training fresh = training;
    fresh.form = samo ? form_of<SamoForm>(masks_of(engine)) : form_of<MaskedForm>(masks_of(engine));
    Engine other(fresh, transport, cpu_device(), {.timeout = 20});
    other.prepare(plan);
    PG_CHECK(trained != state_of(other), "training has changed nothing");
    check_same(state_of(engine), state_of(other), "after the round");
    engine.run(pruned.plans[1], pruned.batches);
    Later later(pruned.batches, pruned.plans[1].plan().first_micro());
    other.run(pruned.plans[0], later);
    check_same(state_of(engine), state_of(other), "two steps later");
  });
}

}  // namespace

TEST_CASE("after a round of a lottery a run is one that begins with the ticket", "[samo]") {
  for (bool samo : {true, false})
    for (DType dtype : fewer(std::vector{DType::f32, DType::bf16}))
      for (auto [schedule, zero] : {std::pair("data", 0),
                                    {"data", 1},
                                    {"data", 2},
                                    {"data", 3},
                                    {"1f1b", 0},
                                    {"2bw", 0},
                                    {"pipedream", 1}}) {
        PrunedRun run;
        run.schedule = schedule;
        run.zero = zero;
        run.dtype = dtype;
        INFO(run << (samo ? " samo" : ""));
        CHECK_NOTHROW(check_rewound(run, samo));
      }
}
