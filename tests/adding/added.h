// The additions of chapter 14: a schedule, a codec, an operation, a transport and a model.
// Each has a source of its own, which would be the same in the library. Their tests see them here.
// Not here: the registers, which the library keeps (chapter 14 names file and line).
#pragma once

#include <functional>

#include "nn/models/model.h"
#include "parallel/codecs/codec.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/transport.h"

namespace plangrad::autograd {

/// SiLU, x / (1 + e^-x), composed of the library's operations. Any shape; the result has x's.
Tensor silu_of_operations(const Tensor& x);
/// SiLU as one node of the graph, which keeps two tensors for backward. Any shape.
Tensor silu(const Tensor& x);
/// Writes silu(x) to y in one pass, outside any graph, as a kernel of the CPU does.
/// shapes: x and y alike, of one type
void silu_on_cpu(const Tensor& x, const Tensor& y);

}  // namespace plangrad::autograd

namespace plangrad::nn {

/// Images of 28 x 28 pixels to the scores of ten classes.
/// shapes: (N,1,28,28) -> (N,10)
Model lenet();

}  // namespace plangrad::nn

namespace plangrad::parallel {

/// GPipe with the name late-weights: backwards have two parts, and the gradients of weights come
/// last.
extern const Schedule late_weights_schedule;

/// The codec `sign`: 4 bytes and a bit for each value.
CodecEntry sign_codec();

/// Runs body(transport) on one thread a rank, as run_ranks does. Messages go through a post office.
void run_by_post(int ranks, const std::function<void(Transport&)>& body);

}  // namespace plangrad::parallel
