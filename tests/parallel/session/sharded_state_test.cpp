// Sharded state where it meets the rest: checkpoints, evaluations, stages smaller than the group.
// Not here: training and its costs (sharding_test.cpp, sharding_costs_test.cpp).

#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/parallel/support/sharded_run.h"
#include "tests/parallel/support/small_session.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

namespace fs = std::filesystem;

/// Six microbatches a step, however they are spread.
Plan plan_of(int zero, int ranks, int stages, int first) {
  if (zero > 0) return sharded_plan({zero, ranks, stages, 6 / ranks, 2, first});
  return make_plan("data", {stages, ranks, 6 / ranks, 2, first});
}

using Weights = std::vector<std::vector<double>>;  // by stage

/// Trains two steps from a checkpoint, if `from` names one, and saves another.
Weights train(const Training& training, int zero, int ranks, int first, const fs::path& from,
              const fs::path& to) {
  SmallBatches batches(odd_gpt());
  const Plan plan = plan_of(zero, ranks, training.stages(), first);
  const std::size_t files = run_and_save(training, plan, batches, from, to);
  CHECK(static_cast<int>(files) == 2 * training.stages());
  Weights result;
  Checkpoint checkpoint(to);
  for (int stage = 0; stage < training.stages(); ++stage) {
    Stage part(training.model, training.cuts[stage], training.cuts[stage + 1]);
    Tensor weights = empty({part.parameters().numel()}, training.dtype, cpu_device());
    checkpoint.load_weights(part.parameters(), weights);
    result.push_back(to_host(weights));
  }
  return result;
}

/// y = x + shift: a layer of one parameter with one element.
class ShiftLayer : public Layer {
 public:
  explicit ShiftLayer(ParameterList& list, const std::string& name)
      : shift_(list.add(name, {1}, Init::constant(0.5))) {}
  Tensor forward(const Tensor& x, const Pass&) const override { return add(x, shift_.value); }

 private:
  Parameter& shift_;
};

/// Between the blocks and the head lie a stage of one element and one without any parameters.
Training training_with_tiny_stages() {
  Model model = gpt(odd_gpt());
  auto same = [](const Shape& shape) { return shape; };
  auto shift = [](ParameterList& list) { return std::make_unique<ShiftLayer>(list, "shift"); };
  model.insert(model.end() - 1, {"shift", shift, 1, same});
  Training training(model, 3);
  training.cuts = {0, 3, 4, 5};
  training.clip = 0;
  return training;
}

}  // namespace

TEST_CASE("checkpoints say nothing about shards: any layout goes on with any other's",
          "[sharding]") {
  TemporaryFolder folder;
  for (DType dtype : fewer<DType>({DType::bf16, DType::f32}, 1)) {
    Training training(gpt(odd_gpt()), 2);
    training.clip = 0;
    training.dtype = dtype;
    const Weights half = train(training, 0, 6, 0, {}, folder.path / "plain");
    const Weights whole = train(training, 0, 6, 2, folder.path / "plain", folder.path / "end");
    REQUIRE(half != whole);
    for (auto [zero, ranks] : {std::pair(3, 6), {2, 6}, {1, 6}}) {
      CHECK(train(training, zero, ranks, 0, {}, folder.path / "sharded") == half);
      for (auto [later, on] : {std::pair(0, 1), {0, 6}, {1, 6}, {2, 6}, {3, 6}}) {
        INFO(dtype << ": zero " << zero << " on " << ranks << ", then " << later << " on " << on);
        CHECK(train(training, later, on, 2, folder.path / "sharded", folder.path / "end") == whole);
      }
    }
    CHECK(train(training, 3, 6, 2, folder.path / "plain", folder.path / "end") == whole);
    train(training, 3, 2, 0, {}, folder.path / "two");  // another order of sums than six ranks'
    Weights on_two = train(training, 3, 2, 2, folder.path / "two", folder.path / "end");
    CHECK(train(training, 0, 2, 2, folder.path / "two", folder.path / "end") == on_two);
  }
}

TEST_CASE("an evaluation of ZeRO 3 gathers what it reads", "[sharding]") {
  Training training(gpt(odd_gpt()), 2);
  training.clip = 0;
  SmallBatches batches(odd_gpt());
  for (int microbatches : {1, 3}) {
    VerifiedPlan first = verify(sharded_plan({3, 3, 2, 1, 2, 0}));
    VerifiedPlan look = verify(sharded_evaluation({3, 3, 2, 1, 0, 2}, microbatches));
    VerifiedPlan then = verify(sharded_plan({3, 3, 2, 1, 2, 2}));
    Outcome with = run_by_engine(training, {first, look, then}, batches);
    CHECK(with.weights == run_by_engine(training, {first, then}, batches).weights);
    CHECK(with.weights == run_serially(training, {first, look, then}, batches).weights);
    Plan like = make_plan("data", {2, 3, 1, 2, 0});
    std::vector<VerifiedPlan> plain = {verify(like),
                                       verify(make_evaluation(like, 2, microbatches))};
    Outcome evaluation = run_by_engine(training, {first, look}, batches);
    CHECK(evaluation.losses == run_by_engine(training, plain, batches).losses);
  }
}

TEST_CASE("stages with fewer elements than ranks are sharded, too", "[sharding]") {
  Training training = training_with_tiny_stages();
  SmallBatches batches(odd_gpt());
  const VerifiedPlan plain = verify(make_plan("data", {3, 3, 1, 3, 0}));
  const auto weights = run_by_engine(training, {plain}, batches).weights;
  REQUIRE(weights.at({0, 1}).size() == 1);
  for (int zero : {1, 2, 3}) {
    Outcome sharded =
        run_by_engine(training, {verify(sharded_plan({zero, 3, 3, 1, 3, 0}))}, batches);
    std::vector<double> tiny;
    for (int rank = 0; rank < (zero == 3 ? 3 : 1); ++rank)
      for (double x : sharded.weights.at({rank, 1})) tiny.push_back(x);
    CHECK(tiny == weights.at({0, 1}));
    CHECK(tiny.front() != 0.5);
  }
}

TEST_CASE("a run does not change its shards between plans", "[sharding]") {
  Training training(gpt(odd_gpt()), 1);
  training.clip = 0;
  SmallBatches batches(odd_gpt());
  auto then = [&](int zero) {
    std::vector<VerifiedPlan> plans = {verify(plan_of(2, 2, 1, 0)), verify(plan_of(zero, 2, 1, 2))};
    run_by_engine(training, plans, batches);
  };
  CHECK_NOTHROW(then(2));
  for (int zero : {0, 1, 3})
    CHECK_THROWS_WITH(then(zero), Contains("this run began with ZeRO 2 over 2") &&
                                      Contains("save a checkpoint and resume it"));
}
