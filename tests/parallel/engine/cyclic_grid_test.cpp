// Cyclic schedules in every setting, as they are made and lowered, by the engine: the bits of the
// rule written out with the whole model on one rank. And what goes with them: clipping, tied
// embeddings, recomputation, evaluation.
// Not here: single messages of plans written by hand (cyclic_engine_test).
#include "tests/catch.h"
#include "tests/parallel/support/cyclic_cases.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

// [snippet every_setting]
TEST_CASE("cyclic schedules learn by their rule, bit for bit, in every setting", "[cyclic]") {
  for (int n : fewer<int>({1, 2, 3, 4, 8}, 3))
    for (const std::string rule : {"v1", "v2"})
      for (bool adamw : {false, true}) {
        Training training = cyclic_training(n, adamw);
        SmallBatches batches(small_gpt());
        const auto weights = ruled(training, rule, batches);
        for (const auto& [name, setting] : settings()) {
          INFO(rule << ' ' << name << ", N = " << n << (adamw ? ", adamw" : ", sgd"));
          Outcome outcome = run_by_engine(training, cyclic_plans(rule, setting, n), batches, n % 3);
          REQUIRE(outcome.weights.size() >= static_cast<std::size_t>(n));
          for (const auto& [where, values] : outcome.weights)
            CHECK(values == weights[where.second]);
          CHECK(outcome.losses.size() == 4u * n);
        }
      }
}
// [end snippet]

TEST_CASE("cyclic schedules: engine and serial interpreter, with options", "[cyclic]") {
  const int n = 3;
  int runs = 0;
  for (const std::string rule : {"v1", "v2"})
    for (const auto& [name, setting] : settings())
      for (int options = 0; options < 8; ++options) {
        Layout layout{.stages = n, .steps = 2};
        layout.setting = setting;
        layout.recompute = options & 1, layout.clip = options & 2, layout.tied = options & 4;
        bool travels = setting == Setting::model || setting == Setting::zero;
        if (sanitized && options % 3 > 0) continue;
        if ((layout.clip && rule == "v2") || (layout.tied && travels)) continue;
        INFO(rule << ' ' << name << " options " << options);
        Training training = cyclic_training(n, true, layout.tied, layout.clip ? 0.3 : 0);
        SmallBatches batches(small_gpt(layout.tied));
        const auto plans = plans_of("cyclic-" + rule, layout, 2);
        Outcome serial = run_serially(training, plans, batches);
        Outcome parallel = run_by_engine(training, plans, batches);
        check_same_bits(parallel, serial);
        ++runs;
      }
  CHECK(runs == (sanitized ? 18 : 48));
}

TEST_CASE("cyclic schedules in bf16: the same in every setting, and by the serial interpreter",
          "[cyclic]") {
  const int n = 3;
  Training training = cyclic_training(n, true);
  training.dtype = DType::bf16;
  SmallBatches batches(small_gpt());
  for (const std::string rule : {"v1", "v2"}) {
    std::map<int, std::vector<double>> weights;  // by stage, as the first setting has them
    for (const auto& [name, setting] : settings()) {
      INFO(rule << ' ' << name);
      const auto plans = cyclic_plans(rule, setting, n);
      Outcome parallel = run_by_engine(training, plans, batches);
      CHECK(parallel.weights == run_serially(training, plans, batches).weights);
      for (const auto& [where, values] : parallel.weights)
        CHECK(values == weights.try_emplace(where.second, values).first->second);
    }
  }
}

TEST_CASE("clipped v1 learns by its rule in every setting", "[cyclic]") {
  for (int n : fewer<int>({2, 3, 4, 8}, 2))
    for (bool adamw : {false, true}) {
      Training training = cyclic_training(n, adamw, false, 0.3);
      SmallBatches batches(small_gpt());
      Layout whole{.stages = n, .microbatches = n, .steps = 4};
      WholeModel model(training, whole, batches);
      const Tensor weights = cyclic_v1(model, whole);
      CHECK(model.norms.at(1) > 0.3);  // or there is nothing to clip
      for (const auto& [name, setting] : settings()) {
        INFO(name << ", N = " << n << (adamw ? ", adamw" : ", sgd"));
        Outcome outcome = run_by_engine(training, cyclic_plans("v1", setting, n, true), batches);
        for (const auto& [where, values] : outcome.weights)
          CHECK(values == model.part(weights, where.second));
      }
    }
}

TEST_CASE("cyclic runs evaluate with the newest weights", "[cyclic]") {
  const int n = 3;
  Training training = cyclic_training(n, true);
  SmallBatches batches(small_gpt());
  std::map<int, double> losses;
  for (const auto& [name, setting] : settings()) {
    INFO(name);
    auto plans = cyclic_plans("v2", setting, n);
    plans.push_back(verify(make_evaluation(plans.back().plan(), 4, 5)));
    std::map<int, double> now;
    for (const RunResult& rank : run_by_engine(training, plans, batches).last)
      now.insert(rank.losses.begin(), rank.losses.end());
    CHECK(now.size() == 5);
    if (losses.empty()) losses = now;
    CHECK(now == losses);
  }
}
