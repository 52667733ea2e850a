// train_gpt --check: ranks of each kind of run compute the same, and compare it.
// Not here: faults that are planted (tests/examples/silent_errors_test.cpp).
#include "tests/examples/runs.h"

using namespace plangrad::tests;

TEST_CASE("runs of all kinds look for silent errors, and find none") {
  const Runs runs{{"--layers", "4", "--batch", "8", "--check", "2", "--steps", "5"}};
  const Words kinds[] = {
      {"--stages", "2", "--microbatches", "2", "--prune", "0.5", "--prune-after", "1", "--samo"},
      {"--data-parallel", "2", "--zero", "3", "--prune", "0.5", "--prune-after", "1", "--samo"},
      {"--schedule", "cyclic-v1", "--stages", "2", "--setting", "pipeline"},
      {"--schedule", "data", "--ranks", "2", "--codec", "quantize:4", "--dtype", "bf16"},
      {"--schedule", "2bw", "--stages", "2", "--codec-channel", "topk:0.1"}};
  for (const Words& kind : kinds) {
    CAPTURE(kind);
    const Finished ended = succeeded(run(runs.words("checked", kind)));
    CHECK_THAT(ended.output, Contains("silent errors: looked for 2x, found none"));
    std::filesystem::remove_all(runs.path("checked"));
  }
}
