// Message-driven training as users run it: what ran can be run again, and no loss depends on it.
// Not here: the order itself (tests/parallel/simulation/driven_test.cpp).
#include "nn/checkpoint/file.h"
#include "parallel/verifier/verify.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;

TEST_CASE("message-driven runs have the losses of 1F1B, and leave a plan that runs again") {
  const Runs runs{{"--stages", "2", "--microbatches", "4", "--batch", "8", "--steps", "8",
                   "--untied", "--clip", "0"}};
  runs.train("driven", {"--schedule", "message-driven"});
  runs.train("1f1b", {"--schedule", "1f1b"});
  runs.check_same("driven", "1f1b");

  const std::string file = runs.path("driven") + "/recorded.plan";
  const auto recorded = plangrad::parallel::parse(plangrad::nn::read_file(file));
  CHECK(recorded.in_flight == 0);
  CHECK(recorded.steps == 4);
  CHECK_NOTHROW(plangrad::parallel::verify(recorded));
  const Words again = tiny_run(runs.data, runs.path("again"),
                               {"--batch", "8", "--steps", "8", "--untied", "--clip", "0"});
  runs.succeed(again + Words{"--plan", file});
  runs.check_same("driven", "again");
}

TEST_CASE("the number of microbatches in flight is bounded as asked, and changes no loss") {
  const Runs runs{{"--stages", "2", "--microbatches", "4", "--batch", "8", "--steps", "4"}};
  runs.train("1f1b", {"--schedule", "1f1b"});
  const Words driven{"--schedule", "message-driven"};
  for (int most : {1, 2, 4}) {
    CAPTURE(most);
    runs.train("driven", driven + Words{"--in-flight", std::to_string(most)});
    runs.check_same("driven", "1f1b");
    const std::string text = plangrad::nn::read_file(runs.path("driven") + "/recorded.plan");
    const auto plan = plangrad::parallel::verify(plangrad::parallel::parse(text));
    const std::vector<int> peaks = plan.facts().peak_microbatches;
    CHECK(*std::max_element(peaks.begin(), peaks.end()) <= most);
  }
  // It ends with the schedule that it is for.
  runs.train("part", driven + Words{"--in-flight", "1", "--stop-after", "2"});
  runs.resume("part", {"--schedule", "gpipe", "--stages", "2"});
  runs.check_same("part", "1f1b");
  runs.check_refused({"--in-flight", "2"}, "--in-flight 2: the schedule 1f1b has no choice of");
}
