// What a change of form leaves of a stage's state: of weights, moments and the bf16 master alike
// the elements that the new masks keep, bit for bit.
// Not here: training after it (pruned_state_test.cpp, prune_run_test.cpp).

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

/// All elements of each buffer, with zeros where elements are pruned, by stage and name.
using State = std::map<std::pair<int, std::string>, std::vector<double>>;

State state_of(Engine& engine, const Masks& masks, bool samo) {
  State state;
  for (auto& [stage, store] : engine.stores()) {
    const ParameterList list = stage_parameters(engine.training(), stage);
    auto add = [&, &stage = stage](const std::string& name, const Tensor& stored) {
      state[{stage, name}] = samo ? expanded(to_host(stored), list, masks) : to_host(stored);
    };
    for (const auto& [version, values] : store.versions()) add(text("version ", version), values);
    for (const auto& [name, values] : store.optimizer().state()) add(name, values);
  }
  return state;
}

/// Zeros where elements are pruned.
State masked(State state, const Training& training, const Masks& masks) {
  for (auto& [where, values] : state)
    for (const Parameter& p : stage_parameters(training, where.first)) {
      if (!masks.contains(p.name)) continue;
      std::vector<double> kept(p.shape.numel(), 0);
      for (std::int32_t i : masks.at(p.name)) kept[i] = values[p.offset + i];
      std::copy(kept.begin(), kept.end(), values.begin() + p.offset);
    }
  return state;
}

bool is_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0; });
}

void check_masked(const State& state, const State& expected) {
  for (const auto& [where, values] : expected) {
    PG_CHECK(!is_zero(values), where.second, " of stage ", where.first, " is zero");
    PG_CHECK(state.at(where) == values, where.second, " of stage ", where.first, " has changed");
  }
}

/// What stages compute with, before a change and after it.
void check_dense(Engine& engine, const State& state) {
  for (auto& [stage, store] : engine.stores())
    PG_CHECK(
        to_host(store.dense(store.newest())) == state.at({stage, text("version ", store.newest())}),
        "stage ", stage, " computes with other weights than it holds");
}

/// Trains dense, then with more and more pruned.
void check_changes(const PrunedRun& run, bool samo) {
  Pruned pruned(run, 2, 3);
  pruned.training.form = nullptr;
  run_ranks(pruned.plans[0].plan().ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(pruned.training, transport, cpu_device(), {.timeout = 20});
    auto before = std::make_shared<const Masks>();
    for (int i : {0, 1}) {
      engine.run(pruned.plans[i], pruned.batches);
      const auto masks = first_masks(pruned.training, i == 0 ? 0.5 : 0.8, run.all);
      const State state = state_of(engine, *before, samo);
      check_dense(engine, state);
      engine.change_form(pruned.plans[i].plan(),
                         samo ? form_of<SamoForm>(masks) : form_of<MaskedForm>(masks));
      const State changed = state_of(engine, *masks, samo);
      check_masked(changed, masked(state, pruned.training, *masks));
      check_dense(engine, changed);
      before = masks;
    }
  });
}

}  // namespace

TEST_CASE("weights, moments and masters that are kept go over into another form", "[samo]") {
  for (bool samo : {true, false})
    for (DType dtype : fewer(std::vector{DType::f32, DType::bf16}))
      for (const char* schedule : {"data", "2bw"}) {
        PrunedRun run;
        run.schedule = schedule;
        run.dtype = dtype;
        run.all = schedule == std::string("data");
        INFO(run << (samo ? " samo" : ""));
        CHECK_NOTHROW(check_changes(run, samo));
      }
}
