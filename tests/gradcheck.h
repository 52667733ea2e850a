// check_gradients: backward against central differences, for every element of every input.
// Not here: which operations are checked; tests/autograd lists them. Chapter 01.
#pragma once

#include "tests/op_cases.h"

namespace plangrad::tests {

/// With F the scalar that is differentiated and h the step,
///   (F(x+h) - F(x-h)) / 2h = F'(x) + h^2/6 F'''(x) + (rounding of F) / h
/// The first error falls with h, the second grows. With eps = 2^-52 they meet at h = eps^(1/3),
/// where each is about eps^(2/3) = 4e-11 times a third derivative, and times F's terms.
/// source: Press et al. 2007, "Numerical Recipes", section 5.7
struct GradientCheck {
  double step = 6.1e-6;  ///< eps^(1/3)
  /// What a gradient may be off by, as a share of 1 + the sum of F's absolute terms: eps^(2/3) with
  /// room for third derivatives and roundings inside f up to 100 times those of one operation.
  double tolerance = 100 * 3.7e-11;
};

/// Differentiates F = sum_i w[i] f(inputs)[i], where w is uniform in [0.5, 1.5), fixed by position:
/// no two elements count the same, so a gradient that lands in the wrong place is found.
/// throws: Error that names the first input and element whose gradients differ, with both values;
///         Error if an input is neither f64 nor i32 (which is passed on as it is)
void check_gradients(const OpFunction& f, const std::vector<Tensor>& inputs,
                     const GradientCheck& check = {});

}  // namespace plangrad::tests
