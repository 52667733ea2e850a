// OpCase: one way to call an operation; op_cases lists them, so that every test can run them all.
// Not here: what must be true of an operation (tests/op_checks.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.h"

namespace paragrad::tests {

using namespace autograd;

/// A tensor whose values are drawn uniformly from [low, high).
struct OpInput {
  Shape shape;
  double low = -1, high = 1;
};

using OpFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  OpFunction f;
  /// For error bounds: the longest chain of roundings on the way to a result or gradient, ...
  double roundings = 4;
  /// ... what to add to the sizes of terms where `terms` alone does not bound them, ...
  double magnitude = 0;
  /// ... and the function that, on absolute inputs, gives the sum of absolute terms; f if empty.
  OpFunction terms = nullptr;
};

/// The cases of one file of autograd/ops: arithmetic, attention, image, layout, matmul, reduce,
/// rows. Sizes are odd, one, or past the width of any vector register.
std::vector<OpCase> op_cases(const std::string& file);

}  // namespace paragrad::tests
