// PyTorch's form of a schedule: a CSV, as torch.distributed.pipelining dumps and loads it, with a
// line for each rank and a cell such as 2F0 for each time step; F, B, I and W are as in plans.
// Not here: messages, which lowering adds (parallel/lowering). Chapter 06.
#pragma once

#include "parallel/verifier/verify.h"

namespace plangrad::examples {

/// Writes each computation of a plan in the time step in which it runs if all take one.
/// throws: Error if PyTorch's form can't say what the plan does
std::string torch_csv(const parallel::VerifiedPlan& verified);
/// Reads rows of computations: a plan's text or, if the file ends in .csv, PyTorch's form.
parallel::Plan read_rows(const std::string& file);

}  // namespace plangrad::examples
