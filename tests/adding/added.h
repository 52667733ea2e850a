// What chapter 14 adds to paragrad: a schedule, a codec, an operation, a transport and a model.
// Each has a source of its own, which would be the same in the library. Their tests see them here.
// Not here: the registers, which the library keeps (chapter 14 names file and line).
#pragma once

#include <functional>

#include "nn/models/model.h"
#include "parallel/codecs/codec.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/transport.h"

namespace paragrad::autograd {

/// x / (1 + e^-x), written with operations that are there.
Tensor silu_of_operations(const Tensor& x);
/// The same values with a gradient of its own, which keeps two tensors for backward.
Tensor silu(const Tensor& x);
/// What a kernel of the CPU would do in one pass: y = silu(x), outside any graph.
void silu_on_cpu(const Tensor& x, const Tensor& y);

}  // namespace paragrad::autograd

namespace paragrad::nn {

/// Images of 28 x 28 pixels to the scores of ten classes.
/// shapes: (N,1,28,28) -> (N,10)
Model lenet();

}  // namespace paragrad::nn

namespace paragrad::parallel {

extern const Schedule zb_h1_schedule;

CodecEntry sign_codec();

/// Runs body(transport) on one thread a rank, as run_ranks does. Messages go through a post office.
void run_by_post(int ranks, const std::function<void(Transport&)>& body);

}  // namespace paragrad::parallel
