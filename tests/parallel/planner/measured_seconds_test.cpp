// Seconds that a run measured, divided among layers and added up to other stages. Chapter 16.
#include "parallel/planner/evaluation.h"
#include "tests/catch.h"

using namespace plangrad::parallel;
using Catch::Matchers::WithinRel;

namespace {

const GptConfig config{.layers = 4, .heads = 2, .width = 32, .context = 16, .vocabulary = 64};

PlannedModel small_gpt() { return planned_gpt("small", config); }

/// Two stages, of one block and the embedding, and of the rest.
MeasuredSeconds measured(const Costs& costs, int shards = 1) {
  return {Training(gpt(config), 2, {2}), costs, /*examples=*/2, shards};
}

Costs costs_of(std::vector<double> forward, std::vector<double> backward) {
  return {.forward = forward,
          .backward = backward,
          .input_part = {0, 0},
          .weight_part = {0, 0},
          .step = {0.1, 0.2}};
}

std::vector<StageSeconds> seconds(const MeasuredSeconds& run, int stages,
                                  const CostSettings& settings = {.examples = 2}) {
  return stage_seconds(model_costs(small_gpt(), stages, settings), run);
}

}  // namespace

TEST_CASE("measured seconds: the run's own stages take what they took", "[planner]") {
  const MeasuredSeconds run = measured(costs_of({1, 4}, {3, 9}));
  const auto same = seconds(run, 2, {.examples = 2, .cuts = {2}});
  CHECK_THAT(same[0].forward, WithinRel(1.0));
  CHECK_THAT(same[1].backward, WithinRel(9.0));
  CHECK_THAT(same[1].input_part, WithinRel(4.5));
  CHECK_THAT(same[0].update + same[1].update + same[2].update,
             WithinRel(0.3 * (1 + 64.0 * 32 / whole_parameters(gpt(config)).numel()), 0.2));
}

// Products of fewer rows have less of the machine's rate: x / (x + tile) of it.
TEST_CASE("measured seconds: other microbatches take what the machine's rates say", "[planner]") {
  const MeasuredSeconds run = measured(costs_of({1, 4}, {3, 9}));
  const auto seconds_of = [&](int examples, const std::string& tile) {
    const Machine machine = parse_machine(
        "machine small\ndevice memory 1e9 bandwidth 1e15 peak.f32 "
        "1e9\nfitted tile " +
        tile + "\n");
    Candidate one{"data", with_defaults(find_schedule("data"), {}), examples};
    return Evaluation(small_gpt(), machine, {}, run).simulated(one).seconds - 0.3;
  };
  CHECK_THAT(seconds_of(2, "64"), WithinRel(17.0));
  CHECK_THAT(seconds_of(6, "0"), WithinRel(3 * 17.0, 1e-6));
  CHECK_THAT(seconds_of(1, "0"), WithinRel(17.0 / 2, 1e-6));
  CHECK_THAT(seconds_of(1, "64"), WithinRel(17.0 / 2 * (16 + 64) / (32 + 64) * 2, 0.1));
}

TEST_CASE("measured seconds: other stages take the sum of their layers", "[planner]") {
  const MeasuredSeconds run = measured(costs_of({1, 4}, {3, 9}));
  const auto one = seconds(run, 1);
  CHECK_THAT(one[0].forward, WithinRel(5.0));
  CHECK_THAT(one[0].backward, WithinRel(12.0));
  CHECK_THAT(one[0].update, WithinRel(0.3));
  // Blocks of one stage take the same; the block of the first stage takes what its stage does.
  const auto each = seconds(run, 6);
  CHECK_THAT(each[0].forward + each[1].forward, WithinRel(1.0));
  CHECK(each[2].forward == each[3].forward);
  CHECK_THAT(each[5].forward / each[4].forward,
             WithinRel(gpt(config)[5].flops / gpt(config)[4].flops, 1e-3));
}

TEST_CASE("measured seconds: parts make a backward, shards an update, a second forward",
          "[planner]") {
  Costs split = costs_of({1, 4}, {0, 0});
  split.input_part = {1, 2}, split.weight_part = {2, 5};
  const auto whole = seconds(measured(split, /*shards=*/4), 1);
  CHECK_THAT(whole[0].backward, WithinRel(10.0));
  CHECK_THAT(whole[0].weight_part, WithinRel(7.0));
  CHECK_THAT(whole[0].update, WithinRel(4 * 0.3));
  const auto again = seconds(measured(split), 1, {.examples = 2, .recompute_layers = true});
  CHECK_THAT(again[0].backward, WithinRel(10.0 + 5.0));
  CHECK_THROWS_WITH(measured(costs_of({1, 4, 2}, {3, 9})),
                    Contains("costs of 3 stages, and cuts of 2"));
}

TEST_CASE("measured seconds: a run's second forward counts in plans that have one", "[planner]") {
  Training training(gpt(config), 1);
  training.recompute_layers = true;
  Costs costs{.forward = {4}, .backward = {15}, .input_part = {0}, .weight_part = {0}};
  const MeasuredSeconds whole(training, costs, /*examples=*/2);
  CHECK_THAT(seconds(whole, 1)[0].backward, WithinRel(11.0));
  CHECK_THAT(seconds(whole, 1)[0].weight_part, WithinRel(5.5));
  const auto again = seconds(whole, 1, {.examples = 2, .recompute_layers = true});
  CHECK_THAT(again[0].backward, WithinRel(15.0));
  costs.input_part = {9}, costs.weight_part = {6};
  CHECK_THAT(seconds({training, costs, 2}, 1)[0].input_part, WithinRel(5.0));
  costs.forward = {15};
  CHECK_THROWS_WITH(MeasuredSeconds(training, costs, 2),
                    Contains("a backward of 15 s, which has a forward of 15 s in it"));
}

TEST_CASE("measured seconds: halves of blocks take what blocks do", "[planner]") {
  const MeasuredSeconds run = measured(costs_of({1, 4}, {3, 9}));
  const auto found = seconds(run, 3, {.examples = 2, .cuts = {1.5, 2.5}});
  const auto blocks = seconds(run, 6);
  const LayerSpec block = gpt(config)[1];
  const double share = block.halves[0].flops / block.flops;  // of its attention
  CHECK_THAT(found[0].forward, WithinRel(blocks[0].forward + share * blocks[1].forward, 1e-3));
  CHECK_THAT(found[1].forward,
             WithinRel((1 - share) * blocks[1].forward + share * blocks[2].forward, 1e-3));
}
