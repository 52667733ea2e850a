// Agreement: what has to be the same, or to fit, before ranks begin a run together.
// Not here: whether a plan fits a model (engine.h).
// Chapter 05.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/transports/transport.h"

namespace paragrad::parallel {

/// Compares what each rank says of the run: processes can be started with different flags, or read
/// different data. All ranks call it together.
/// throws: Error that names a rank and what differs
void check_agreement(Transport& transport, const nlohmann::json& run, double timeout);

/// throws: Error if hierarchical sums of gradients would be those of scatter-reduce-allgather in
///         every group, since its members are all on one host, or each on another
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

}  // namespace paragrad::parallel
