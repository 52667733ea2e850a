// OpCase: one way to call an operation; op_cases lists them, so that every test can run them all.
// Not here: what must be true of an operation (tests/op_checks.h).
#pragma once

#include <functional>

#include "autograd/tensor.h"

namespace plangrad::tests {

using namespace autograd;

/// A tensor whose values are drawn uniformly from [low, high).
struct OpInput {
  Shape shape;
  double low = -1, high = 1;
};

using OpFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// How far rounding may take a result. A chain of k roundings of a sum of terms t costs at most
/// k u sum |t|, u being half the distance from 1 to the next number (Higham 2002, section 3.1).
struct Rounding {
  double roundings = 4;  ///< the longest chain in the compute type, f32
  double magnitude = 0;  ///< what to add to the sizes of terms where those do not bound them
  /// The terms are the value itself: what the operation does on absolute inputs says nothing.
  bool relative = false;
  double stored = 0;  ///< tensors in bf16 that the value has passed through before it is stored
};
/// A value that is only copied.
inline constexpr Rounding exactly{0, 0, true};

struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  OpFunction f;
  Rounding result = {}, gradient = result;
  /// The function that, on absolute inputs, gives the sum of absolute terms; f if empty.
  OpFunction terms = nullptr;
};

/// The loss of a last layer, for targets (...) on x's device.               x (...,In)
using OpIds = std::function<Tensor(const Tensor& x)>;
OpCase linear_cross_entropy_case(const Shape& x, std::int64_t classes, OpIds targets);

/// The cases of one file of autograd/ops: arithmetic, attention, image, layout, matmul, reduce,
/// rows. Sizes are odd, one, or past the width of any vector register.
std::vector<OpCase> op_cases(const std::string& file);

}  // namespace plangrad::tests
