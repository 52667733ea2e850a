// Operations that move values without computing: reshape, transpose, slice, concatenate.
// Not here: strided views. What is cut or transposed is copied, except rows, which stay in place.
// Chapter 01.
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// The same values under another shape; one size may be -1 and is inferred. Copies nothing.
/// throws: Error if the number of elements differs
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);

/// Dimension i of the result is dimension order[i] of x.
Tensor permute(const Tensor& x, const std::vector<int>& order);
/// Exchanges two dimensions.
Tensor transpose(const Tensor& x, int a = -2, int b = -1);

/// Elements [first, last) along `axis`. Along axis 0 the result shares x's storage.
/// throws: Error if the range is empty or not inside the dimension
Tensor slice(const Tensor& x, int axis, std::int64_t first, std::int64_t last);

/// The parts one after the other along `axis`; other dimensions must agree.
Tensor concatenate(const std::vector<Tensor>& parts, int axis);

}  // namespace paragrad::autograd
