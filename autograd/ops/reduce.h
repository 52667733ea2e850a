// Reductions: sum, mean and maximum over some of a tensor's dimensions.
// Not here: reductions over ranks (parallel/).
// Chapter 01.
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// Over all elements.                                                                 (...) -> ()
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);

/// Over the dimensions `axes`, which keep size 1; negative axes count from the end.
/// throws: Error if there is no such dimension
Tensor sum(const Tensor& x, const std::vector<int>& axes);
Tensor mean(const Tensor& x, const std::vector<int>& axes);
/// Equal maxima share the gradient evenly.
Tensor max(const Tensor& x, const std::vector<int>& axes);

/// Adds up what broadcasting had spread: the inverse of stretching `shape` to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace paragrad::autograd
