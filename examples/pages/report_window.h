// What report.html shows of recorded updates: bars, cells, memory and messages.
// Not here: the facts behind them (parallel/observers/recording.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/observers/recording.h"
#include "parallel/planner/layer_costs.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

///   model: what ran, one microbatch of it; sums: how groups add up
nlohmann::json window_json(const RecordedUpdates& recorded, const RecordedFacts& facts,
                           const ModelCosts& model, const Summing& sums = {});

/// The ranks whose cells and memory a page shows, and for each the ranks whose rows compute the
/// same stages in the same order, itself included. All ranks, each alone, up to 32 of them.
std::vector<std::vector<int>> shown_ranks(const Plan& plan);

}  // namespace plangrad::examples
