// The program `plan` as tests of it run it: what its commands print, and what they refuse.
// Not here: programs in general (examples/programs.h).
#pragma once

#include "tests/examples/programs.h"

namespace plangrad::tests {

/// A command of `plan` for a schedule of 4 stages, 4 microbatches and 3 updates.
Words small_plan(const std::string& command, const std::string& schedule);

/// What a command prints that succeeds, perhaps with a note on what the schedule costs.
std::string output_of(const Words& words);
/// The JSON that a command prints with --json.
nlohmann::json json_of(const Words& words);

/// Checks that a command fails and prints `lines` lines of errors alone: they begin with "error:"
/// and hold `part`. Its status is 1 if the plan breaks a rule, which takes two lines, and else 2.
void check_refused(const Words& words, const std::string& part, long lines = 1);

/// Two ranks that wait for each other: one has its first backward before its second forward, the
/// other has its second forward first.
extern const std::string hanging_plan;

/// The text with the first `old` in it replaced.
std::string replaced(std::string text, const std::string& old, const std::string& with);

}  // namespace plangrad::tests
