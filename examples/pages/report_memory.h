// What a report tells of bytes. Memory: each rank's peak by category, its bytes over time, and what
// the plan needs at every level of ZeRO. Messages: bytes by kind and rank, beside those of
// the same values in f32 without a codec, and over time. Not here: the meter (autograd/device.h),
// the run's totals (observers/run_record.h), pictures (drawing/). Chapters 06, 09 and 10.
#pragma once

#include <nlohmann/json.hpp>

#include "parallel/drawing/draw.h"
#include "parallel/observers/recording.h"
#include "parallel/planner/peak.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The bytes that a record's rank would have sent if the value were in f32 and no codec encoded it.
/// Empty messages and norms stay as they are.
double bytes_in_f32(const Record& record, const Plan& plan, const ModelCosts& model);

/// {"kinds", "sent", "f32": bytes of an update by kind, "ranks": of an update by kind for each
/// rank, "flow": {"seconds" of a slot, "slots": bytes by kind that all ranks begin to send in
/// each}, "largest_burst" (bytes), "burst_seconds"}
nlohmann::json wire_json(const Plan& plan, const Timeline& measured, const ModelCosts& model);

/// {"categories", "peaks": a list for each rank of the bytes by category when the rank held the
/// most, "unit" (bytes), "lines": for each of `shown` ranks and each category the most bytes in
/// each column of equal time, in units, or one number if they never change}. Few columns if many
/// ranks are shown.
nlohmann::json memory_json(const std::vector<MemorySample>& samples, int ranks,
                           const std::vector<int>& shown, double seconds);

/// The memory that a plan needs at each level of ZeRO, from 0 to 3: bytes of ranks at their peaks,
/// and of the fullest one by kind, like "memory" of a plan's facts (plan_facts.h). null: the plan
/// can't run at this level, or no rank has a replica to share state with.
/// All is null if the recorded state is pruned, as the model's is not.
nlohmann::json levels_json(const RecordedUpdates& recorded, const ModelCosts& model,
                           const Summing& sums);

}  // namespace plangrad::examples
