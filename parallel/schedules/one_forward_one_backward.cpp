// 1F1B, PipeDream-Flush: a stage begins its backwards as soon as it can, so it keeps the
// activations of at most (stages - stage) microbatches; the pipeline runs empty before every step.
// Chapter 06; Narayanan et al. 2021 (PipeDream-2BW), section 3.2.
#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {

extern const Schedule one_forward_one_backward_schedule{.name = "1f1b", .make = alternating_plan};

}  // namespace paragrad::parallel
