// What a report tells of messages: the bytes of recorded updates by kind and rank, beside those of
// the same values in f32 without a codec, and bytes over time.
// Not here: the run's totals (observers/run_record.h). Chapters 06 and 10.
#pragma once

#include <nlohmann/json.hpp>

#include "parallel/engine/training.h"
#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

/// The bytes that a record's rank would have sent if the value were in f32 and no codec encoded it.
/// Empty messages and norms stay as they are.
///   elements: of each stage (stage_elements)
double bytes_in_f32(const Record& record, const Plan& plan, const Training& training,
                    const std::vector<std::int64_t>& elements);

/// {"kinds", "sent", "f32": bytes of an update by kind, "ranks": of an update by kind for each
/// rank, "flow": {"seconds" of a slot, "slots": bytes by kind that all ranks begin to send in
/// each}, "largest_burst" (bytes), "burst_seconds"}
nlohmann::json wire_json(const Plan& plan, const Timeline& measured, const Training& training);

}  // namespace plangrad::parallel
