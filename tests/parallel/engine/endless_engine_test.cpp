// An endless plan, run for any number of bodies, gives the bits of the schedule's own plan of that
// length.
#include "parallel/plan/plan.h"
#include "tests/catch.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/cyclic_cases.h"
#include "tests/parallel/support/grid.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

void check_same(const Outcome& endless, const Outcome& plain) {
  check_same_bits(endless, plain);
  CHECK(endless.norms == plain.norms);
  for (std::size_t rank = 0; rank < plain.last.size(); ++rank) {
    CHECK(endless.last[rank].bytes_sent == plain.last[rank].bytes_sent);
    CHECK(endless.last[rank].squares == plain.last[rank].squares);
  }
}

void check_lengths(const Training& training, const std::string& schedule, Layout layout,
                   const std::vector<int>& lengths, const GptConfig& config = small_gpt()) {
  SmallBatches batches(config);
  const auto found = make_endless(schedule, layout);
  REQUIRE(found);
  const VerifiedPlan endless = verify(*found);
  layout.steps = 1;
  const int steps_of_one = make_plan(schedule, layout).steps;  // a step can be one microbatch
  for (int bodies : lengths) {
    auto steps = [&] { return found->steps + (bodies - 1) * found->period; };
    while (steps() == 0 || steps() % steps_of_one != 0) ++bodies;
    INFO("bodies " << bodies);
    layout.steps = steps() / steps_of_one;
    const VerifiedPlan plain = verify(make_plan(schedule, layout));
    check_same(run_endless(training, endless, batches, {.bodies = bodies}, bodies % 2 * 2),
               run_by_engine(training, {plain}, batches));
  }
}

}  // namespace

TEST_CASE("endless plans give the bits of plans of one length") {
  for (const Case& c : fewer(grid())) {
    if (c.schedule == "message-driven") continue;
    INFO(c);
    check_lengths(training_of(c), c.schedule, layout_of(c, 1), {0, 3});
  }
}

TEST_CASE("rank 0 hears of each update once, and ends an endless plan at any time") {
  const Case c{"2bw", 1, 3, 3, false, true, false, false};
  const Training training = training_of(c);
  const Layout layout = layout_of(c, 1);
  SmallBatches batches(small_gpt());
  const VerifiedPlan endless = verify(*make_endless(c.schedule, layout));
  for (int last : {2, 7, 1000}) {
    INFO("stops after " << last);
    std::map<int, double> losses, norms;
    int heard = 0, reports = 0;
    auto hear = [&](const std::vector<RunResult>& results) {
      ++reports;
      CHECK(results.size() == 3);
      for (RunResult result : results) {
        losses.merge(result.losses);
        norms.merge(result.norms);
        heard = std::max(heard, result.last_step);
      }
      return heard < last;
    };
    const Course course{.bodies = 40, .report_every = 2, .heard = hear};
    Outcome outcome = run_endless(training, endless, batches, course);
    const int steps = outcome.last[0].last_step;
    for (const RunResult& rank : outcome.last) CHECK(rank.last_step == steps);
    if (last > 40)
      CHECK(steps == endless.plan().steps + 39);
    else
      CHECK(steps < 30);
    CHECK(reports >= 1);
    for (auto* all : {&losses, &norms}) {
      auto& rest = all == &losses ? outcome.losses : outcome.norms;
      for (const auto& [key, value] : *all) CHECK_FALSE(rest.contains(key));  // none twice
      rest.merge(*all);
    }
    Layout same = layout;
    same.steps = steps;
    const Outcome plain = run_by_engine(training, {verify(make_plan(c.schedule, same))}, batches);
    check_same_bits(outcome, plain);
    CHECK(outcome.norms == plain.norms);
  }
}

TEST_CASE("rank 0 ends an endless plan whose rows have no tail") {
  const Case c{"data", 2, 1, 1, false, false, false, false};
  const VerifiedPlan endless =
      verify(parse("stages 1 per_step 2 steps 1 groups 0,1 period 1\n"
                   "| 0F0v0 0B0v0 0Rv1@0 0Sv1 |\n"
                   "| 0F1v0 0B1v0 0Rv1@0 0Sv1 |\n"));
  SmallBatches batches(small_gpt());
  auto stop = [](const std::vector<RunResult>&) { return false; };
  const Course course{.bodies = 40, .report_every = 1, .heard = stop};
  const Outcome outcome = run_endless(training_of(c), endless, batches, course);
  CHECK(outcome.last[1].last_step == outcome.last[0].last_step);
  CHECK(outcome.last[0].last_step < 20);
}

TEST_CASE("bars are found late in a run as at its beginning") {
  const Layout layout{.stages = 4, .microbatches = 4, .first = 1000000};
  const auto late = make_endless("2bw", layout);
  REQUIRE(late);
  CHECK(bodies_for(*late, late->steps + 10) == 11);
  CHECK(bodies_for(*late, 1 << 28) < (1 << 28));  // cells of a row are counted in an int
}

TEST_CASE("endless cyclic plans give the bits of plans of one length", "[cyclic]") {
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (const auto& [name, setting] : settings())
      for (int n : fewer<int>({3, 2}, 1)) {
        if (setting == Setting::one_device) continue;
        INFO(schedule << ' ' << name << ' ' << n);
        check_lengths(cyclic_training(n, true), schedule, {.stages = n, .setting = setting},
                      {0, 3});
      }
}

TEST_CASE("endless plans with codecs give the bits of plans of one length", "[codec]") {
  const std::vector<CodedRun> runs{
      {.schedule = "2bw", .codec = "quantize:4", .channel = "bf16", .clip = true},
      {.schedule = "2bw", .codec = "lowrank:2", .channel = "topk:0.2", .tied = true},
      {.schedule = "pipedream", .codec = "topk:0.1", .channel = "quantize:4"},
      {.schedule = "pipedream", .codec = "quantize:3:64:stochastic"},
      {.schedule = "cyclic-v1", .codec = "quantize:4", .setting = Setting::model},
      {.schedule = "cyclic-v2", .codec = "threshold:0.1:3", .tied = true}};
  for (const CodedRun& run : fewer(runs, 3)) {
    INFO(run);
    Layout layout = layout_of(run, 1);
    layout.recompute = run.schedule == "pipedream";
    check_lengths(training_of(run), run.schedule, layout, {2, 3}, coded_gpt(run.tied));
  }
}
