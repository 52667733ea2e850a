// Schedules and layouts whose plans are made endless, for tests.
// Not here: how (parallel/schedules/endless.cpp).
#pragma once

#include "parallel/schedules/schedule.h"

namespace plangrad::tests {

struct EndlessCase {
  std::string schedule;
  parallel::Layout layout;
};

/// The case in words, for messages.
std::string describe(const EndlessCase& endless);

/// A grid of every schedule that has a fixed order: sizes, replicas, options, settings, ZeRO
/// levels, beginnings of a run.
std::vector<EndlessCase> endless_cases();

/// A few of each kind, for tests that make many plans of each.
std::vector<EndlessCase> few_endless_cases();

/// The endless plan with so many bodies; nullopt if it would have no steps.
std::optional<parallel::Plan> unrolled_if_any(const parallel::Plan& plan, int bodies);

}  // namespace plangrad::tests
