// Cyclic schedules as plans: the worked examples, the rule, and the costs of every setting as
// equalities. Not here: running them (cyclic_engine_test), time (time_steps_test).

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

Layout layout(Setting setting, int n, int steps = 4) {
  return {.stages = n, .steps = steps, .setting = setting};
}

Plan plan_of(const std::string& rule, Setting setting, int n, int steps = 4) {
  return make_plan("cyclic-" + rule, layout(setting, n, steps));
}

/// Visits every plan of a grid.
template <class Visit>
void for_each_plan(Visit visit) {
  for (const std::string rule : {"v1", "v2"})
    for (const auto& [name, setting] : settings())
      for (int n : {1, 2, 3, 4, 5, 8}) {
        INFO(rule << ' ' << name << ", N = " << n);
        visit(rule, setting, n);
      }
}

int messages(const VerifiedPlan& plan, const std::string& what) {
  const auto& all = plan.facts().messages;
  return all.contains(what) ? all.at(what) : 0;
}

}  // namespace

TEST_CASE("cyclic: plans as they were checked by hand", "[cyclic]") {
  CHECK(print(plan_of("v2", Setting::data, 3, 2)) == golden("cyclic_v2_data"));
  CHECK(print(plan_of("v2", Setting::pipeline, 3, 2)) == golden("cyclic_v2_pipeline"));
  CHECK(print(plan_of("v2", Setting::model, 3, 2)) == golden("cyclic_v2_model"));
}

TEST_CASE("cyclic: every plan verifies, can't hang without buffers, and is delayed by one step",
          "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    const Plan plan = plan_of(rule, setting, n);
    CHECK(parse(print(plan)) == plan);
    const VerifiedPlan verified = verify(plan);
    CHECK(verified.facts().capacity == 0);
    CHECK(verified.facts().staleness == (rule == "v2" && n == 1 ? 0 : 1));
    for (int live : verified.facts().live_versions) CHECK(live <= 2);
    int ranks = setting == Setting::one_device ? 1
                : setting == Setting::model    ? n * (n + 1) / 2
                                               : n;
    CHECK(plan.ranks() == ranks);
  });
}

TEST_CASE("cyclic: a microbatch reads the new weights where the rule says so", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    int reads = 0;
    for (const Row& row : plan_of(rule, setting, n).rows)
      for (const Instruction& x : row) {
        if (x.op != Op::forward && x.op != Op::backward) continue;
        int step = x.micro / n, i = x.micro % n;
        bool fresh = rule == "v2" && i + x.stage >= n - 1;
        CHECK(x.version == (fresh ? step : std::max(step - 1, 0)));
        ++reads;
      }
    CHECK(reads == 2 * n * n * 4);
  });
}

TEST_CASE("cyclic: the facts say where new weights are read", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    const std::vector<std::string> fresh = verify(plan_of(rule, setting, n)).facts().fresh_reads;
    REQUIRE(fresh.size() == std::size_t(n));
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) CHECK((fresh[i][j] == '1') == (rule == "v2" && i + j >= n - 1));
  });
}

TEST_CASE("cyclic: within a segment data and model need one version of the weights", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    if (n == 1) return;
    for (int first : {0, 5}) {
      Layout wanted = layout(setting, n);
      wanted.first = first;
      const Plan plan = make_plan("cyclic-" + rule, wanted);
      const bool is_one = setting == Setting::data || setting == Setting::model;
      const std::vector<int> in_use = verify(plan).facts().versions_in_use;
      CHECK(*std::max_element(in_use.begin(), in_use.end()) == (is_one ? 1 : 2));
    }
  });
  for (Setting setting : {Setting::data, Setting::model})
    for (int n : {2, 3, 4, 8}) {
      Plan plan = plan_of("v2", setting, n);
      plan.keep.assign(n, 1);  // what comes after the segment is not asked for
      CHECK(verify(plan).facts().live_versions == std::vector<int>(plan.ranks(), 1));
    }
}

TEST_CASE("cyclic: activations on each rank", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    const std::vector<int> peak = verify(plan_of(rule, setting, n)).facts().peak_microbatches;
    if (setting == Setting::one_device) {
      // Between time steps N*N/2; accumulating in sequence would do with N, all at once take N*N.
      CHECK(peak == std::vector<int>{(n * n + 1) / 2});
    } else if (setting == Setting::pipeline) {
      for (int stage = 0; stage < n; ++stage) CHECK(peak[stage] == n - stage);
    } else {
      for (int each : peak) CHECK(each == (setting == Setting::model ? 1 : n));
    }
  });
}

TEST_CASE("cyclic: stage messages a training step", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    // The difference of two lengths is what a step costs when the ends do not count.
    const VerifiedPlan longer = verify(plan_of(rule, setting, n, 6));
    const VerifiedPlan shorter = verify(plan_of(rule, setting, n, 5));
    auto each_step = [&](const char* what) {
      return messages(longer, what) - messages(shorter, what);
    };
    int sums = 0, weights = 0;
    if (setting == Setting::data) sums = 2 * n * (n - 1);
    if (setting == Setting::model) sums = (n - 1) * (n - 1) + n * (n - 1) / 2;
    if (setting == Setting::zero) sums = (n - 1) * (n + 1);
    CHECK(each_step("p") == sums);
    if (setting == Setting::zero) weights = (n - 1) * (2 * n - 1);
    CHECK(each_step("w") == weights);
    bool passes = setting == Setting::pipeline || setting == Setting::model;
    CHECK(each_step("a") == (passes ? n * (n - 1) : 0));
    CHECK(each_step("g") == (passes ? n * (n - 1) : 0));
    CHECK(messages(longer, "reduce") + messages(longer, "gather") == 0);
  });
}

TEST_CASE("cyclic: weights that travel are on a rank for a use or two", "[cyclic]") {
  for (const std::string rule : {"v1", "v2"})
    for (int n : {2, 3, 4, 8, 16})
      for (int first : {0, 5}) {
        INFO(rule << ", N = " << n << ", first " << first);
        Layout wanted = layout(Setting::zero, n);
        wanted.first = first;
        for (const Row& row : make_plan("cyclic-" + rule, wanted).rows) {
          int guests = 0;  // besides what is at home
          for (const Instruction& x : row) {
            if (x.what != Value::weights) continue;
            guests += x.op == Op::recv ? 1 : x.op == Op::drop ? -1 : 0;
            CHECK(guests <= 4);
          }
        }
      }
}

// [snippet v1_is_2bw]
TEST_CASE("cyclic: v1 as a pipeline is 2BW", "[cyclic]") {
  for (int n : {1, 2, 3, 4, 8})
    CHECK(plan_of("v1", Setting::pipeline, n).rows ==
          make_plan("2bw", {.stages = n, .microbatches = n, .steps = 4}).rows);
}
// [end snippet]

TEST_CASE("cyclic: segments follow each other", "[cyclic]") {
  for_each_plan([](const std::string& rule, Setting setting, int n) {
    Layout later = layout(setting, n, 3);
    later.first = 5;
    CHECK_NOTHROW(verify(make_plan("cyclic-" + rule, later)));
    CHECK_NOTHROW(verify(make_evaluation(make_plan("cyclic-" + rule, later), 8, 2 * n + 1)));
  });
}

TEST_CASE("cyclic: with recomputation, clipping and tied embeddings, or refused by name",
          "[cyclic]") {
  int made = 0;
  for_each_plan([&](const std::string& rule, Setting setting, int n) {
    for (int options = 0; options < 8; ++options) {
      Layout wanted = layout(setting, n, 3);
      wanted.recompute = options & 1, wanted.clip = options & 2, wanted.tied = options & 4;
      bool travels = setting == Setting::model || setting == Setting::zero;
      if (wanted.clip && rule == "v2") {
        CHECK_THROWS_WITH(make_plan("cyclic-v2", wanted), Contains("cyclic-v2 can't clip"));
      } else if (wanted.tied && n > 1 && travels) {
        CHECK_THROWS_WITH(make_plan("cyclic-" + rule, wanted), Contains("untie the embeddings"));
      } else {
        for (int gap : {1, 2, 3, n}) {
          if (gap > 3 && gap > n) continue;
          INFO("options " << options << ", gap " << gap);
          wanted.gap = gap;
          const VerifiedPlan plan = verify(make_plan("cyclic-" + rule, wanted));
          CHECK(plan.facts().capacity <= 1);
          CHECK(simulate(plan, Costs{.backward = {1}}).makespan() > 0);
          ++made;
        }
      }
    }
  });
  CHECK(made > 600);
}

TEST_CASE("cyclic: what makes no sense is refused", "[cyclic]") {
  auto refused = [](auto change, const char* words) {
    Layout wanted = layout(Setting::data, 4);
    change(wanted);
    CHECK_THROWS_WITH(make_plan("cyclic-v2", wanted), Contains(words));
  };
  refused([](Layout& x) { x.microbatches = 3; }, "as many microbatches as stages, 4");
  refused([](Layout& x) { x.width = 2; }, "has no replicas");
  refused([](Layout& x) { x.zero = 1; }, "--setting zero");
  refused([](Layout& x) { x.gap = 5; }, "a --gap of 5 does not fit 4 stages; use one from 1 to 4");
}

TEST_CASE("ZeRO: the plan that was checked by hand", "[zero]") {
  CHECK(print(make_plan("data", {.stages = 3, .width = 2, .steps = 2, .zero = 3})) ==
        golden("zero_3"));
}

TEST_CASE("ZeRO: a reduction for each stage and step, and gathers as the stage needs them",
          "[zero]") {
  for (int zero : {1, 2, 3})
    for (int width : {2, 3, 5})
      for (int stages : {1, 2, 4})
        for (int microbatches : {1, 3}) {
          const Plan plan = make_plan("data", {.stages = stages,
                                               .width = width,
                                               .microbatches = microbatches,
                                               .steps = 3,
                                               .zero = zero});
          const VerifiedPlan verified = verify(plan);
          CHECK(verified.facts().capacity == 0);
          CHECK(messages(verified, "reduce") == 3 * stages);
          // Stage 3: once for each forward and backward, less the last stage's when no other comes
          // between them.
          int uses = stages == 1 ? 2 * microbatches : 2 * microbatches * stages;
          CHECK(messages(verified, "gather") == (zero < 3 ? 3 * stages : 3 * uses));
          CHECK_NOTHROW(verify(make_evaluation(plan, 3, 2 * width + 1)));
          CHECK_NOTHROW(verify(make_evaluation(plan, 3, 1)));
        }
}

TEST_CASE("ZeRO: combinations", "[zero]") {
  for (const char* schedule : {"gpipe", "1f1b", "pipedream", "2bw"})
    for (int options = 0; options < 8; ++options) {
      Layout wanted{.stages = 3, .width = 2, .microbatches = 4, .steps = 3, .zero = 1};
      wanted.recompute = options & 1, wanted.clip = options & 2, wanted.tied = options & 4;
      INFO(schedule << " options " << options);
      if (schedule == std::string("pipedream") && wanted.clip && wanted.tied)
        CHECK_THROWS_WITH(make_plan(schedule, wanted), Contains("Leave out one of them"));
      else
        CHECK_NOTHROW(verify(make_plan(schedule, wanted)));
      wanted.zero = 2;
      CHECK_THROWS_WITH(make_plan(schedule, wanted), Contains("ZeRO 2 can't be combined with"));
    }
  for (int options = 0; options < 8; ++options) {
    Layout wanted{.stages = 3, .width = 2, .microbatches = 2, .steps = 3, .zero = 3};
    wanted.recompute = options & 1, wanted.clip = options & 2, wanted.tied = options & 4;
    CHECK_NOTHROW(verify(make_plan("data", wanted)));
  }
  CHECK_THROWS_WITH(make_plan("data", {.zero = 1}), Contains("nothing to share"));
  CHECK_THROWS_WITH(make_plan("data", {.width = 2, .zero = 4}), Contains("levels 1 to 3, not 4"));
}
