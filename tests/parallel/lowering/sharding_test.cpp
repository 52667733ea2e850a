// ZeRO: sharded plans give the bits of plain data parallelism and of the serial interpreter.
// The plans are simple ones, written out. Not here: those that schedules make (zero_grid_test.cpp),
// and what they cost (sharding_costs_test.cpp).
#include "parallel/plan/lifetimes.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/sharded_run.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

/// The whole of a stage's newest weights, as rank 0 has them or put together from shards.
std::vector<double> whole(const Outcome& outcome, const Form& f, int stage) {
  std::vector<double> result;
  for (int rank = 0; rank < (f.zero == 3 ? f.ranks : 1); ++rank) {
    const std::vector<double>& part = outcome.weights.at({rank, stage});
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

void check_same_weights(const Outcome& sharded, const Form& f, const Outcome& plain) {
  for (int stage = 0; stage < f.stages; ++stage) {
    CHECK(whole(sharded, f, stage) == plain.weights.at({0, stage}));
    for (int rank = 0; f.zero < 3 && rank < f.ranks; ++rank)
      CHECK(sharded.weights.at({rank, stage}) == plain.weights.at({0, stage}));
  }
}

}  // namespace

TEST_CASE("the plans under test are the golden one", "[sharding]") {
  Plan plan = sharded_plan({.zero = 3, .ranks = 2, .stages = 3, .steps = 2});
  CHECK(print(plan) == print(parse(plan_text("zero_3"))));
}

TEST_CASE("ZeRO gives the bits of the serial interpreter and of plain data parallelism",
          "[sharding]") {
  int i = 0;
  for (int ranks : fewer<int>({3, 1, 2, 4}, 1))
    for (int stages : fewer<int>({3, 1, 2}, 2))
      for (bool sgd : {false, true})
        for (DType dtype : {DType::f32, DType::bf16}) {
          Form form{0, ranks, stages};
          form.sgd = sgd;
          form.dtype = dtype;
          form.microbatches = ++i % 3 == 0 ? 2 : 1;
          form.reduction = i % 2 == 0 ? AllReduce::ring : AllReduce::scatter_reduce;
          Training training = training_of(form);
          SmallBatches batches(odd_gpt());
          Outcome plain = run_serially(training, plans_of(form), batches, form.reduction);
          for (int zero : {1, 2, 3}) {
            form.zero = zero;
            INFO(form);
            Outcome sharded = run(form);
            Outcome serial = run_serially(training, plans_of(form), batches, form.reduction);
            check_same_bits(sharded, serial);
            CHECK(sharded.losses == plain.losses);
            check_same_weights(sharded, form, plain);
          }
        }
}

TEST_CASE("clipped ZeRO: the norm within n u of the plain one, the weights the same",
          "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int zero : {1, 2, 3}) {
      Form form{0, ranks, 2};
      form.clip = true;
      Outcome plain = run(form);
      form.zero = zero;
      INFO(form);
      Outcome sharded = run(form);
      SmallBatches batches(odd_gpt());
      CHECK(sharded.weights == run_serially(training_of(form), plans_of(form), batches).weights);
      // Squares of f32 are exact in f64. Root and division add two roundings to each norm.
      double bound = static_cast<double>(sum(counts(training_of(form))) + 4) * std::ldexp(1, -53);
      bool clipped = false, same_scales = true;
      REQUIRE(sharded.norms.size() == 4);
      for (const auto& [version, norm] : sharded.norms) {
        CHECK(std::abs(norm - plain.norms.at(version)) <= bound * norm);
        auto scale = [&](double x) { return static_cast<float>(clip_scale(x, 0.3) / ranks); };
        clipped |= scale(norm) < 1.0f / static_cast<float>(ranks);
        same_scales &= scale(norm) == scale(plain.norms.at(version));
      }
      CHECK(clipped);
      REQUIRE(same_scales);  // kernels take the scale in f32
      check_same_weights(sharded, form, plain);
    }
}

TEST_CASE("ZeRO 1 and 3 clip as the golden plans say, and with recomputed layers", "[sharding]") {
  for (const char* name : {"zero_1_clip", "zero_3"}) {
    INFO(name);
    VerifiedPlan plan = verify(parse(plan_text(name)));
    Training training(gpt(odd_gpt()), plan.plan().stages);
    training.clip = plan.plan().clip ? 0.3 : 0;
    SmallBatches batches(odd_gpt());
    Outcome plain = run_serially(training, {plan}, batches);
    for (bool recompute : {false, true})
      for (int capacity : {0, 2}) {
        training.recompute_layers = recompute;
        CHECK(run_by_engine(training, {plan}, batches, capacity).weights == plain.weights);
      }
  }
}

TEST_CASE("ZeRO 1 in pipelines: each stage over the ranks that hold it", "[sharding]") {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
    for (int width : {2, 3})
      for (bool tied : {false, true})
        for (bool clip : {false, true}) {
          const bool delayed =
              schedule == std::string("2bw") || schedule == std::string("pipedream");
          if (clip && schedule == std::string("pipedream")) continue;
          // Here a gather stands right behind its step, and the ends of a pipeline without flushes
          // step the tensor that they share at different places. In plans that are lowered it
          // stands behind all of them (zero_grid_test.cpp).
          if (tied && delayed) continue;
          INFO(schedule << " W" << width << (tied ? " tied" : "") << (clip ? " clip" : ""));
          Training training(gpt(odd_gpt(tied)), 2);
          training.clip = clip ? 0.3 : 0;
          Layout layout{.stages = 2, .width = width, .microbatches = 2, .steps = 3};
          layout.clip = clip;
          layout.tied = tied;
          SmallBatches batches(odd_gpt());
          Plan plain = make_plan(schedule, layout), sharded = with_zero_1(plain);
          VerifiedPlan verified = verify(sharded);
          Outcome engine = run_by_engine(training, {verified}, batches);
          CHECK(engine.weights == run_serially(training, {verified}, batches).weights);
          Outcome reference = run_by_engine(training, {verify(plain)}, batches);
          if (!clip) CHECK(engine.weights == reference.weights);
          for (const auto& [version, norm] : engine.norms)
            CHECK(norm == Approx(reference.norms.at(version)).epsilon(1e-12));
          const auto ranks = holders(sharded);
          for (int rank = 0; rank < sharded.ranks(); ++rank) {
            std::int64_t elements = 0;
            for (int stage = 0; stage < sharded.stage_count(); ++stage)
              for (std::size_t member = 0; member < ranks[stage].size(); ++member)
                if (ranks[stage][member] == rank) {
                  auto count = static_cast<std::int64_t>(engine.weights.at({rank, stage}).size());
                  elements += shard_of(sharded, stage, rank).range(count).size();
                }
            CHECK(engine.live[rank].at(Category::optimizer) == 8 * elements);
          }
        }
}

TEST_CASE("squares of a gradient are counted once, by the ranks of its shards", "[sharding]") {
  Form form{0, 3, 2};
  auto squares = [&](int zero) {
    form.zero = zero;
    std::map<int, std::vector<double>> total;
    for (const RunResult& result : run(form).last)
      for (const auto& [version, sums] : result.squares) {
        total[version].resize(sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i) total[version][i] += sums[i];
      }
    return total;
  };
  const auto plain = squares(0);
  REQUIRE(plain.size() == 2);
  for (int zero : {1, 2, 3})
    for (const auto& [version, sums] : squares(zero))
      for (std::size_t i = 0; i < sums.size(); ++i)
        CHECK(sums[i] == Approx(plain.at(version)[i]).epsilon(1e-12));
}
