// The papers' formulas as equalities: what is stashed, how many versions live, how stale gradients
// are, what is sent; by the verifier, the simulator and the engine.
// Not here: bubbles of GPipe and 1F1B (pipeline_times_test.cpp), bytes of memory (memory_test.cpp).

#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

constexpr int steps = 3;

/// Calls check(layout, facts, ranks' stages) for a plan of each size.
template <class Check>
int for_each_size(const std::string& schedule, bool recompute, Check check) {
  int plans = 0;
  for (int stages = 1; stages <= 6; ++stages)
    for (int microbatches = 1; microbatches <= 7; ++microbatches)
      for (int width : {1, 2}) {
        INFO(schedule << " D" << stages << " M" << microbatches << " W" << width);
        Layout layout{stages, width, microbatches, steps, 0, recompute};
        check(layout, verify(make_plan(schedule, layout)).facts());
        ++plans;
      }
  return plans;
}

/// A value for each rank, from its stage.
template <class Value>
std::vector<int> by_rank(const Layout& layout, Value value) {
  std::vector<int> result;
  for (int rank = 0; rank < layout.width * layout.stages; ++rank)
    result.push_back(value(rank % layout.stages));
  return result;
}

int count(const Facts& facts, const char* message) {
  auto found = facts.messages.find(message);
  return found == facts.messages.end() ? 0 : found->second;
}

double bytes_of(const Training& training) {
  return 4.0 * static_cast<double>(whole_parameters(training.model).numel());
}

}  // namespace

TEST_CASE("GPipe stashes M microbatches, 1F1B min(D - stage, M)", "[forms]") {
  int plans = for_each_size("gpipe", false, [](const Layout& layout, const Facts& facts) {
    CHECK(facts.peak_microbatches == by_rank(layout, [&](int) { return layout.microbatches; }));
  });
  plans += for_each_size("1f1b", false, [](const Layout& layout, const Facts& facts) {
    CHECK(facts.peak_microbatches == by_rank(layout, [&](int stage) {
            return std::min(layout.stages - stage, layout.microbatches);
          }));
  });
  CHECK(plans >= 160);
}

TEST_CASE("recomputation leaves the stashes' inputs and one microbatch", "[forms]") {
  for_each_size("gpipe", true, [](const Layout& layout, const Facts& facts) {
    CHECK(facts.peak_inputs == by_rank(layout, [&](int) { return layout.microbatches; }));
    CHECK(facts.peak_microbatches == by_rank(layout, [](int) { return 1; }));
  });
  for_each_size("1f1b", true, [](const Layout& layout, const Facts& facts) {
    CHECK(facts.peak_inputs == by_rank(layout, [&](int stage) {
            return std::min(layout.stages - stage, layout.microbatches);
          }));
    CHECK(facts.peak_microbatches == by_rank(layout, [](int) { return 1; }));
  });
}

TEST_CASE("synchronous schedules have one version and fresh gradients", "[forms]") {
  for (const char* schedule : {"gpipe", "1f1b", "data"}) {
    Layout layout{.stages = 3, .width = 2, .microbatches = 3, .steps = steps};
    Facts facts = verify(make_plan(schedule, layout)).facts();
    CHECK(facts.staleness == 0);
    CHECK(*std::max_element(facts.live_versions.begin(), facts.live_versions.end()) == 1);
  }
}

TEST_CASE("2BW has two versions and a delay of one", "[forms]") {
  for (bool recompute : {false, true})
    for_each_size("2bw", recompute, [](const Layout& layout, const Facts& facts) {
      CHECK(facts.staleness == 1);
      CHECK(facts.live_versions == by_rank(layout, [](int) { return 2; }));
      // D - stage where there are as many microbatches a step as the paper asks for
      CHECK(facts.peak_inputs == by_rank(layout, [&](int stage) {
              const int d = layout.stages, in_flight = std::min(d, layout.microbatches + 1);
              const int kept = (in_flight * (d - stage) + d - 1) / d;  // rounded up
              return std::min(kept, layout.microbatches * steps);
            }));
    });
}

TEST_CASE("2BW: microbatch k reads version max(floor((k-1)/m) - 1, 0), m a step", "[forms]") {
  for (int stages : {1, 3, 4})
    for (int microbatches : {1, 4, 5})
      for (int width : {1, 2}) {
        Layout layout{stages, width, microbatches, steps};
        Plan plan = make_plan("2bw", layout);
        int m = microbatches * width, checked = 0;
        for (const Row& row : plan.rows)
          for (const Instruction& x : row) {
            if (x.op != Op::forward && x.op != Op::backward) continue;
            int k = x.micro + 1;  // the paper counts from 1
            CHECK(x.version == std::max((k - 1) / m - 1, 0));
            ++checked;
          }
        CHECK(checked == 2 * stages * m * steps);
      }
}

TEST_CASE("PipeDream keeps up to D - stage versions", "[forms]") {
  for_each_size("pipedream", false, [](const Layout& layout, const Facts& facts) {
    int updates = layout.microbatches * steps;
    CHECK(facts.staleness == std::min(layout.stages, updates) - 1);
    CHECK(facts.live_versions ==
          by_rank(layout, [&](int stage) { return std::min(layout.stages - stage, updates + 1); }));
    CHECK(facts.peak_microbatches ==
          by_rank(layout, [&](int stage) { return std::min(layout.stages - stage, updates); }));
  });
}

TEST_CASE("2BW stands still only while its pipeline fills and empties", "[forms]") {
  for (int stages : {1, 2, 4, 6})
    for (int microbatches = std::max(stages - 1, 1); microbatches <= 2 * stages; ++microbatches)
      for (int width : {1, 2}) {
        INFO("D" << stages << " M" << microbatches << " W" << width);
        constexpr double tf = 3, tb = 5;
        Costs costs;
        costs.forward = {tf};
        costs.backward = {tb};
        Layout layout{stages, width, microbatches, steps};
        Timeline timeline = simulate_unverified(make_plan("2bw", layout), costs);
        CHECK(timeline.makespan() == (steps * microbatches + stages - 1) * (tf + tb));
        for (int rank = 0; rank < timeline.ranks; ++rank) {
          // From the first backward to the last forward the compute lane never waits.
          double begin = timeline.makespan(), end = 0, busy = 0;
          for (const Record& r : timeline.records) {
            if (r.rank != rank) continue;
            if (r.instruction.op == Op::backward) begin = std::min(begin, r.start);
            if (r.instruction.op == Op::forward) end = std::max(end, r.end);
          }
          for (const Record& r : timeline.records)
            if (r.rank == rank && r.lane == Lane::compute && r.start >= begin && r.end <= end)
              busy += r.end - r.start;
          CHECK(busy == end - begin);
        }
      }
}

TEST_CASE("2BW fills and drains its pipeline only once if and only if m >= D - 1", "[forms]") {
  for (int stages = 2; stages <= 8; ++stages)
    for (int microbatches = 1; microbatches <= 8; ++microbatches) {
      INFO("D" << stages << " m" << microbatches);
      Costs costs;
      costs.forward = {1};
      costs.backward = {2};
      Layout layout{.stages = stages, .microbatches = microbatches, .steps = 6};
      const VerifiedPlan plan = verify(make_plan("2bw", layout));
      const double least = (6 * microbatches + stages - 1) * 3;
      const double makespan = simulate(plan, costs).makespan();
      CHECK((makespan == least) == (microbatches >= stages - 1));
      CHECK(makespan >= least);
      // Two versions are enough in either case: a pipeline that waits does not need a third.
      CHECK(plan.facts().live_versions == std::vector<int>(stages, 2));
    }
}

TEST_CASE("pipelines send an output and a gradient for each cut and microbatch", "[forms]") {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
    for (bool recompute : {false, true})
      for_each_size(schedule, recompute, [&](const Layout& layout, const Facts& facts) {
        int micros = steps * layout.microbatches, cuts = layout.stages - 1;
        int updates = schedule == std::string("pipedream") ? micros : steps;
        CHECK(count(facts, "a") == cuts * layout.width * micros);
        CHECK(count(facts, "g") == cuts * layout.width * micros);
        CHECK(count(facts, "reduce") == (layout.width > 1 ? layout.stages * updates : 0));
        CHECK(count(facts, "norm") == 0);
      });
  Layout all{
      .stages = 4, .width = 2, .microbatches = 3, .steps = steps, .clip = true, .tied = true};
  Facts facts = verify(make_plan("2bw", all)).facts();
  CHECK(count(facts, "reduce") == (4 + 1) * steps);  // the tied stage's, too
  CHECK(count(facts, "norm") == 2 * steps);          // one for each replica
}

TEST_CASE("engine: an all-reduce sends 2(N-1)/N of the gradients from each rank", "[forms]") {
  for (AllReduce how : {AllReduce::scatter_reduce, AllReduce::ring})
    for (int width : {1, 2, 3, 4}) {
      Training training = small_training(2);
      auto plans = plans_of("data", {.stages = 2, .width = width, .microbatches = 2, .steps = 2});
      SmallBatches batches(small_gpt());
      Outcome outcome = run_by_engine(training, plans, batches, 0, how);
      double all = 0, share = 2.0 * (width - 1) / width * bytes_of(training);
      for (const RunResult& result : outcome.last) {
        double sent = 0, recorded = 0;
        for (const auto& [kind, bytes] : result.bytes_sent) sent += static_cast<double>(bytes);
        for (const Record& r : result.records) recorded += static_cast<double>(r.bytes);
        CHECK(recorded == sent);
        CHECK(result.bytes_sent.size() == (width > 1 ? 1 : 0));
        if (width != 3) CHECK(sent == 2 * share);  // 3 does not divide the gradients
        all += sent;
      }
      CHECK(all == 2 * 2.0 * (width - 1) * bytes_of(training));
    }
}

TEST_CASE("engine: a pipeline's bytes are those of its outputs, gradients and norms", "[forms]") {
  constexpr int stages = 3, micros = 2 * 2, rows = 2;
  Training training(gpt(small_gpt(false)), stages);
  auto plans = plans_of("1f1b", {.stages = stages, .microbatches = 2, .steps = 2, .clip = true});
  SmallBatches batches(small_gpt(), rows);
  Outcome outcome = run_by_engine(training, plans, batches);
  const std::int64_t output = rows * small_gpt().context * small_gpt().width * 4;
  const auto squares = static_cast<std::int64_t>(8 * training.whole.size());
  std::int64_t norms = 0;
  for (int rank = 0; rank < stages; ++rank) {
    auto sent = outcome.last[rank].bytes_sent;
    CHECK(sent["activations"] == (rank < stages - 1 ? micros * output : 0));
    CHECK(sent["activation gradients"] == (rank > 0 ? micros * output : 0));
    CHECK(sent["reductions"] == 0);
    norms += sent["norms"];
  }
  CHECK(norms == 2 * 2 * (stages - 1) * squares);  // steps, there and back
}

TEST_CASE("engine: what is recorded is the row, but for drops and norms among one", "[forms]") {
  for (const auto& [name, schedule] : ordinary_schedules()) {
    Layout layout{2, 2, 2, 2, 0, true, true, true};
    Training training(gpt(small_gpt()), 2);
    auto plans = plans_of(name, layout);
    SmallBatches batches(small_gpt());
    Outcome outcome = run_by_engine(training, plans, batches);
    const Plan& plan = plans[0].plan();
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      std::multiset<std::string> recorded, expected;
      for (const Record& r : outcome.last[rank].records) {
        recorded.insert(print(r.instruction));
        CHECK(r.rank == rank);
        CHECK((r.lane == Lane::compute) == is_compute(r.instruction));
        CHECK(r.end >= r.start);
      }
      for (const Instruction& x : plan.rows[rank]) {
        bool alone = x.what == Value::norm && plan.groups[x.peer].size() == 1;
        if (x.op != Op::drop && !alone) expected.insert(print(x));
      }
      CHECK(recorded == expected);
    }
  }
}
