// Run report: what a run leaves for people to look at: trace.json and report.html.
// Not here: drawing (draw.h). Chapter 06.
#pragma once

#include <filesystem>

#include "parallel/drawing/draw.h"
#include "parallel/simulation/simulate.h"

namespace paragrad::parallel {

/// What computations and messages of a measured timeline cost: medians of the stages' forwards,
/// backwards and steps; of messages, whose times contain waiting, the shortest time as the latency
/// and the rate that a tenth of them reach as the bandwidth.
Costs measured_costs(const Plan& plan, const Timeline& measured);

/// The loss over the steps, from the lines of a metrics.jsonl.
Curve loss_curve(const std::filesystem::path& metrics);
/// The choices of bits that a run's metrics.jsonl has.
std::vector<BitChange> bit_history(const std::filesystem::path& metrics);

}  // namespace paragrad::parallel
