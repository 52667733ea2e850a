// The engine over threads gives the bits of the serial interpreter, for every schedule, width, depth,
// number of microbatches, with and without recomputation, clipping and tied embeddings.
#include "parallel/engine.h"

#include "parallel/lifetimes.h"
#include "tests/catch.h"
#include "tests/parallel/ordinary_schedules.h"
#include "tests/parallel/small_run.h"

using namespace paragrad::tests;

namespace {

struct Case {
  std::string schedule;
  int width, stages, microbatches;
  bool recompute, clip, tied, sgd;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.schedule << " W" << c.width << " D" << c.stages << " M" << c.microbatches
             << (c.recompute ? " recompute" : "") << (c.clip ? " clip" : "")
             << (c.tied ? " tied" : "") << (c.sgd ? " sgd" : "");
}

Training training_of(const Case& c) {
  Training training(gpt(small_gpt(c.tied, 0.1)), c.stages);
  training.clip = c.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 2, 8};
  if (c.sgd)
    training.optimizer = [](const ParameterList& list, const Tensor& weights) {
      return make_sgd(list, weights, 0.9, 0.01);
    };
  return training;
}

Layout layout_of(const Case& c, int steps) {
  bool tied = c.tied && c.stages > 1;
  return {c.stages, c.width, c.microbatches, steps, 0, c.recompute, c.clip, tied};
}

/// Every combination, with the features that are not part of the grid changing along.
std::vector<Case> grid() {
  std::vector<Case> cases;
  int i = 0;
  for (const auto& [schedule, make] : ordinary_schedules())
    for (int width : {1, 2})
      for (int stages : {1, 2, 4})
        for (int microbatches : {1, 3})
          for (bool recompute : {false, true}) {
            ++i;
            cases.push_back({schedule, width, stages, microbatches, recompute, i % 3 == 0,
                             i % 2 == 0, i % 5 == 0});
          }
  return cases;
}

}  // namespace

// [snippet same_bits]
TEST_CASE("every schedule gives the bits of the serial interpreter") {
  for (const Case& c : grid()) {
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
      CHECK(one.weights == two.weights);
      CHECK(one.losses == two.losses);
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
    CHECK(parallel.weights == serial.weights);
    CHECK(parallel.losses == serial.losses);
  }
}
