// The engine over threads gives the bits of the serial interpreter, for every schedule, width,
// depth, number of microbatches, with and without recomputation, clipping and tied embeddings.
#include "parallel/engine/engine.h"

#include "parallel/plan/lifetimes.h"
#include "tests/catch.h"
#include "tests/parallel/support/grid.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

// [snippet same_bits]
TEST_CASE("every schedule gives the bits of the serial interpreter") {
  for (const Case& c : fewer(grid())) {
    INFO(c);
    Training training = training_of(c);
    auto plans = plans_of(c.schedule, layout_of(c, 5));
    SmallBatches batches(small_gpt());
    Outcome serial = run_serially(training, plans, batches);
    for (int capacity : {0, 2}) {
      Outcome parallel = run_by_engine(training, plans, batches, capacity);
      CHECK(parallel.weights == serial.weights);
      CHECK(parallel.losses == serial.losses);
    }
  }
}
// [end snippet]

TEST_CASE("a border between plans changes no bit") {
  for (const char* schedule : {"1f1b", "2bw", "pipedream"})
    for (bool tied : {false, true}) {
      Case c{schedule, 1, 3, 3, false, false, tied, false};
      INFO(c);
      Training training = training_of(c);
      SmallBatches batches(small_gpt());
      Outcome one = run_by_engine(training, plans_of(schedule, layout_of(c, 4)), batches);
      Outcome two = run_by_engine(training, plans_of(schedule, layout_of(c, 2), 2), batches);
      check_same_bits(one, two);
    }
}

TEST_CASE("a first plan that begins late has one version in place of the older ones") {
  for (const char* schedule : {"2bw", "pipedream"}) {
    Case c{schedule, 1, 3, 3, false, false, false, false};
    INFO(c);
    Training training = training_of(c);
    Layout layout = layout_of(c, 3);
    layout.first = 2;
    SmallBatches batches(small_gpt());
    Outcome serial = run_serially(training, plans_of(schedule, layout), batches);
    Outcome parallel = run_by_engine(training, plans_of(schedule, layout), batches);
    check_same_bits(parallel, serial);
  }
}
