// Message-driven training as users run it: what ran can be run again, and no loss depends on it.
// Not here: the order itself (tests/parallel/driven_test).
#include "nn/file.h"
#include "parallel/verify.h"
#include "tests/examples/runs.h"

using namespace paragrad::tests;

TEST_CASE("message-driven runs have the losses of 1F1B, and leave a plan that runs again") {
  const Runs runs{{"--stages", "2", "--microbatches", "4", "--batch", "8", "--steps", "8",
                   "--untied", "--clip", "0"}};
  runs.train("driven", {"--schedule", "message-driven"});
  runs.train("1f1b", {"--schedule", "1f1b"});
  runs.check_same("driven", "1f1b");

  const std::string file = runs.path("driven") + "/recorded.plan";
  const auto recorded = paragrad::parallel::parse(paragrad::nn::read_file(file));
  CHECK(recorded.in_flight == 0);
  CHECK(recorded.steps == 4);
  CHECK_NOTHROW(paragrad::parallel::verify(recorded));
  const Words again = tiny_run(runs.data, runs.path("again"),
                               {"--batch", "8", "--steps", "8", "--untied", "--clip", "0"});
  runs.succeed(again + Words{"--plan", file});
  runs.check_same("driven", "again");
}
