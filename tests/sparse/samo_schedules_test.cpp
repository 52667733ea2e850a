// SAMO on interleaved, breadth-first, zero-bubble, two-way and drifting schedules: the bits of
// dense tensors multiplied by the mask and, with codecs, too, of the serial interpreter.
// Not here: other schedules (samo_engine_test).
#include "tests/catch.h"
#include "tests/parallel/support/todays_schedules.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

TEST_CASE("SAMO combines with the schedules of today and their codecs", "[samo][chunked]") {
  const std::vector<std::string> codecs{"none", "quantize:4", "topk:0.1"};
  std::size_t number = 0;
  for (const Today& today : fewer(todays_schedules())) {
    PrunedRun run;
    run.schedule = today.schedule;
    run.codec = codecs[number % codecs.size()];
    run.recompute = number % 2 == 1;
    run.zero = number % 4 > 1;
    run.tied = number++ % 3 == 0;
    INFO(run);
    Pruned pruned(run, 2, 2);
    const Outcome samo = pruned.by_engine(), serial = pruned.serially();
    check_same_bits(samo, serial);
    run.codec = "none";
    Pruned plain(run, 2, 2);
    const Outcome other = plain.by_engine(), masked = plain.masked();
    CHECK(other.losses == masked.losses);
    const bool same = expanded(by_stage(other, run.zero), plain.training, *plain.masks) ==
                      by_stage(masked, run.zero);
    CHECK(same);
  }
}
