// What a report tells of bytes. Memory: each rank's peak by category, its bytes over time, and what
// its state would take at every level of ZeRO. Messages: bytes by kind and rank, beside those of
// the same values in f32 without a codec, and over time. Not here: the meter (autograd/device.h),
// the run's totals (observers/run_record.h), pictures (drawing/). Chapters 06, 09 and 10.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/engine/training.h"
#include "parallel/plan/timeline.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The bytes that a record's rank would have sent if the value were in f32 and no codec encoded it.
/// Empty messages and norms stay as they are.
///   elements: of each stage (stage_elements)
double bytes_in_f32(const Record& record, const Plan& plan, const Training& training,
                    const std::vector<std::int64_t>& elements);

/// {"kinds", "sent", "f32": bytes of an update by kind, "ranks": of an update by kind for each
/// rank, "flow": {"seconds" of a slot, "slots": bytes by kind that all ranks begin to send in
/// each}, "largest_burst" (bytes), "burst_seconds"}
nlohmann::json wire_json(const Plan& plan, const Timeline& measured, const Training& training);

/// {"categories", "peaks": a list for each rank of the bytes by category when the rank held the
/// most, "unit" (bytes), "lines": for each of `shown` ranks and each category the most bytes in
/// each column of equal time, in units, or one number if they never change}. Few columns if many
/// ranks are shown.
nlohmann::json memory_json(const std::vector<MemorySample>& samples, int ranks,
                           const std::vector<int>& shown, double seconds);

/// The elements of each stage; the last one is the tied stage's, if the plan has one.
std::vector<std::int64_t> stage_elements(const Plan& plan, const Training& training);

/// Bytes of weights, gradients and optimizer state that a rank keeps between updates.
struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0;
};

/// What each rank would keep of its stages' state if the plan sharded it at this level (0 to 3):
/// of n elements on N holders with v versions, n v w + n g + n o bytes, of which level 1 divides
/// n o by N, level 2 also n g, level 3 also n w.
///   optimizer: bytes of state per element (o)
/// source: tutorial 09
std::vector<StateBytes> state_at_level(const VerifiedPlan& plan, const Training& training,
                                       int level, double optimizer);

}  // namespace plangrad::examples
