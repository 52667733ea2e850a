// Orthonormal rows, for codecs that send products of thin matrices.
// Not here: what the rows mean (low_rank.h). Chapter 10.
#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace paragrad::parallel {

using namespace autograd;

/// Replaces the rows of x by an orthonormal basis whose first k rows span what x's first k did, by
/// modified Gram-Schmidt. A row that is zero, or that f32 can't tell from a sum of those before it,
/// spans nothing: it is drawn anew by `key`, so that there are always R rows. Ranks that begin with
/// the same bits end with the same, if their processors compute alike.
/// shapes: x (R,N), f32, finite, R <= N
void orthonormalize(const Tensor& x, RandomKey key);

}  // namespace paragrad::parallel
