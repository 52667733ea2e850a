// A plan of four ranks, proven right, by plangrad::parallel. Chapter 06.
#include <cstdio>

#include "parallel/schedules/schedule.h"
#include "parallel/verifier/verify.h"

using namespace plangrad::parallel;

int main() {
  VerifiedPlan proven = verify(make_plan("1f1b", {.stages = 4, .microbatches = 8}));
  std::printf("%d ranks; channels hold %d messages\n", proven.plan().ranks(),
              proven.facts().capacity);
}
