// A run's plans are verified for several updates before it starts, so a schedule that is wrong
// where updates follow each other is refused before anything is trained.
#include "parallel/session/session.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

/// Plans in which the second update reads a version that nobody has made yet.
class WrongLater : public Plans {
 public:
  WrongLater() : Plans("1f1b", {.stages = 2, .microbatches = 2}) {}

 protected:
  Plan make(int first, int steps) const override {
    Plan plan = Plans::make(first, steps);
    for (Row& row : plan.rows)
      for (Instruction& x : row)
        if (goes_back(x) && plan.made_by(x.micro) == first + 2) x.version = first;
    return plan;
  }
};

}  // namespace

TEST_CASE("plans: a schedule that is wrong at its second update is refused at once", "[session]") {
  WrongLater plans;
  CHECK_NOTHROW(plans.shortest(0));
  CHECK_NOTHROW(plans.check(0, 1));  // there is no second one
  CHECK_THROWS_WITH(plans.check(0, 2), Contains("same version: rank 0, 0B2v0: reads version 0"));
  CHECK_THROWS_WITH(plans.check(3, 100), Contains("same version"));
  Plans good("1f1b", {.stages = 2, .microbatches = 2});
  CHECK_NOTHROW(good.check(0, 100));
  CHECK(good.get(0, 3)->plan().steps == 3);
  Plans own(make_plan("1f1b", {.stages = 2, .steps = 2}));
  CHECK_NOTHROW(own.check(0, 4));  // which repeats its own two
}
