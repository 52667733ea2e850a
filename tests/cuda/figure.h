// Reports of the emulator as chapter 12 shows them.
// Not here: the faults that they speak of.
#pragma once

#include <string>

namespace plangrad::tests {

/// check_printed (tests/figures.h) of a report, without what differs from run to run.
void check_report(const std::string& name, const std::string& said);

}  // namespace plangrad::tests
