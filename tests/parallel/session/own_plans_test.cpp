// A user's own endless plan as the plans of a run: of any length that it has, and from any update
// on, it is the plan of the schedule that it was made by.
#include "parallel/plan/plan.h"
#include "parallel/session/session.h"
#include "tests/catch.h"
#include "tests/parallel/support/endless_cases.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

namespace {

/// The first few lengths that the plans can have.
std::vector<int> first_of(const Lengths& lengths) {
  return {lengths.least, lengths.least + lengths.every, lengths.least + 3 * lengths.every};
}

/// The schedule's plan of so many updates; nullopt if its steps do not add up to as many.
std::optional<Plan> made(const EndlessCase& c, int first, int steps) {
  Layout layout = c.layout;
  const bool single = find_schedule(c.schedule).updates_per_microbatch;
  if (single) layout.microbatches = 1;  // its plans count updates as steps
  layout.first = first;
  layout.steps = steps;
  return make_plan(c.schedule, layout);
}

}  // namespace

TEST_CASE("own plans: an endless file's plans are those of its schedule, from any update on",
          "[session]") {
  std::vector<EndlessCase> cases = few_endless_cases();
  cases.push_back({"pipedream", {.stages = 4, .clip = true}});
  cases.push_back({"cyclic-v2", {.stages = 4, .setting = Setting::data}});  // its period is 2
  int compared = 0;
  for (EndlessCase& c : cases) {
    if (c.layout.setting == Setting::zero) continue;
    INFO(describe(c));
    c.layout.first = 0;
    Plans plans(*make_endless(c.schedule, c.layout));
    CHECK(plans.fixed_steps() == 0);
    for (int first : {0, 1, 2, 7}) {
      INFO("from update " << first);
      const Plans::Shared endless = plans.endless(first);
      REQUIRE(endless);
      for (int steps : first_of(plans.lengths())) {
        const Plan plan = plans.get(first, steps)->plan();
        CHECK(unrolled(endless->plan(), bodies_for(endless->plan(), steps)) == plan);
        // In this setting the microbatches of an update go through the ranks in turn.
        if (c.layout.setting == Setting::model && first % endless->plan().period > 0) continue;
        CHECK(plan == made(c, first, steps));
        ++compared;
      }
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("own plans: the updates that plans of some lengths can make", "[session]") {
  const Lengths any, odd{3, 2}, four{4, 0};
  for (int steps : {1, 2, 9}) CHECK(any.has(steps));
  CHECK((!odd.has(1) && odd.has(3) && !odd.has(4) && odd.has(5)));
  CHECK((four.has(4) && !four.has(8)));
  CHECK((!odd.makes(2) && !odd.makes(4) && odd.makes(6) && odd.makes(8)));
  CHECK((four.makes(8) && !four.makes(9)));
  CHECK(any.fitted(4, 9) == 4);
  CHECK(any.fitted(9, 9) == 9);
  CHECK(odd.fitted(4, 11) == 5);   // leaves 6, as 3 and 3
  CHECK(odd.fitted(4, 9) == 9);    // else 4 would be left, which no plans make
  CHECK(odd.fitted(10, 10) == 3);  // leaves 7
  CHECK(Lengths{2, 1}.fitted(4, 5) == 5);
}

TEST_CASE("own plans: an endless plan must fit where the run ends, is validated and saved",
          "[session]") {
  SessionScope scope;
  scope.steps = 10;
  Observers observers;
  auto check = [&](const Lengths& lengths, int first) {
    check_lengths(lengths, Borders(scope, first, observers), first);
  };
  const Lengths two{2, 1};
  CHECK_NOTHROW(check(two, 0));
  CHECK_THROWS_WITH(check(two, 9),
                    Contains("it can't make the 1 from update 9 to the end after update 10; use "));
  observers = observers_of({.evaluate_every = 3})();
  CHECK_THROWS_WITH(check(two, 0), Contains("2 updates, or 1 more any number of times; ") &&
                                       Contains("the 1 from update 9 to the end after update 10"));
  scope.save_every = 4;
  CHECK_THROWS_WITH(check(two, 0),
                    Contains("the 1 from update 3 to the checkpoint after update 4"));
  scope.stop_after = 3;
  CHECK_NOTHROW(check(two, 0));
  CHECK_NOTHROW(check(Lengths{}, 0));
}

TEST_CASE("own plans: an endless plan that can't begin anew later is refused", "[session]") {
  const Layout layout{.stages = 3, .setting = Setting::zero};
  const std::string use = "make it by plan show --endless without --first, and not with --setting";
  CHECK_THROWS_WITH(Plans(*make_endless("cyclic-v2", layout)), Contains(use));
  CHECK_THROWS_WITH(Plans(*make_endless("2bw", {.stages = 2, .microbatches = 2, .first = 4})),
                    Contains(use));
  const Plan other = parse(
      "stages 1 per_step 1 steps 3 keep 2 period 1\n"
      "0F0v0 0B0v0 0Sv1 0F1v1 0B1v1 0Sv2 | 0F2v1 0B2v1 0Sv3 |\n");
  CHECK_THROWS_WITH(Plans(other), Contains("rank 0, 0F1v1: the body would read version 0 here"));
}
