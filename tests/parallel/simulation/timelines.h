// What tests of the simulator share: plans by hand, and records of a timeline.
#pragma once

#include "parallel/simulation/simulate.h"

namespace plangrad::tests {

/// The first record of an instruction on a rank.
/// throws: Error if there is none
const parallel::Record& find(const parallel::Timeline& timeline, int rank,
                             const std::string& instruction);

/// Start and end, in seconds.
using Span = std::pair<double, double>;
/// When an instruction starts and ends on a rank.
Span span(const parallel::Timeline& timeline, int rank, const std::string& instruction);

/// Gives each record the first cell of its row that has its instruction and no record yet.
parallel::Timeline with_cells(const parallel::Plan& plan, parallel::Timeline timeline);

/// A pipeline of two stages and two microbatches.
extern const std::string two_stages;

/// Rows under the important part of a header; a step has as many microbatches as the rows name.
parallel::Plan rows(const std::string& text, const std::string& header = "stages 1 groups 0,1");

/// A plan of tests/parallel/plans/.
parallel::Plan example(const std::string& name);

}  // namespace plangrad::tests
