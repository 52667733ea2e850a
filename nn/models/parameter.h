// Parameter: a named tensor of a model, and ParameterList, which collects them while layers are
// made. Not here: values. They live in a flat buffer that a stage binds its parameters to.
// Chapter 02.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tensor.h"

namespace paragrad::nn {

using namespace autograd;

/// How a parameter's values begin, drawn from the sequence (seed, name).
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double a = 0, b = 0;  ///< the constant; mean and deviation; lowest and highest

  static Init constant(double value) { return {Kind::constant, value, 0}; }
  static Init normal(double deviation) { return {Kind::normal, 0, deviation}; }
  static Init uniform(double bound) { return {Kind::uniform, -bound, bound}; }
};

/// A weight is learnt from its gradient. A statistic follows an average: what arrives as its
/// "gradient" is an observation (batch norm).
enum class ParameterKind { weight, statistic };

/// Computes x W^T + bias with a weight matrix W of which only these values are there; bias may be
/// undefined.
/// shapes: x (...,In), values as the parameter's, bias (Out) -> (...,Out)
using Product = std::function<Tensor(const Tensor& x, const Tensor& values, const Tensor& bias)>;

struct Parameter {
  std::string name;
  Shape shape;
  Init init;
  ParameterKind kind = ParameterKind::weight;
  std::int64_t offset = 0;    ///< of its first element in the flat buffer
  bool shared = false;        ///< other stages read it, too: it lives in a flat buffer of its own
  bool decays = false;        ///< weight decay is for matrices, not for biases and norms (GPT-2)
  bool multiplies = false;    ///< all that reads it is linear (nn/models/layers.h)
  Tensor value = {};          ///< what forward reads: a window on the flat buffer that is bound now
  Product product = nullptr;  ///< where the value has only some elements of the matrix
};

/// The parameters of a stage in flat-buffer order. Addresses stay valid while it grows.
class ParameterList {
 public:
  /// The parameter `name`, made on first use; layers that name the same one share it (tied
  /// embeddings).
  /// throws: Error if it exists with another shape
  Parameter& add(const std::string& name, const Shape& shape, Init init,
                 ParameterKind kind = ParameterKind::weight);

  /// Moves those that `shared` names too, to a list that looks like `shared`, offsets and all.
  /// Empty if there are none. The others' offsets close the gaps.
  ParameterList take(const ParameterList& shared);

  /// Elements [first, last) of the flat buffer as a list of its own, whose buffer is that much
  /// shorter: what an optimizer acts on that has a shard of a stage. Each parameter is there as far
  /// as it lies within, as a vector.
  ParameterList part(std::int64_t first, std::int64_t last) const;

  /// Number of elements of all parameters together.
  std::int64_t numel() const { return numel_; }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  std::size_t size() const { return parameters_.size(); }

 private:
  std::list<Parameter> parameters_;
  std::int64_t numel_ = 0;
};

/// Flat buffers by name: what an optimizer keeps and a checkpoint holds. The weights' name is "".
using FlatBuffers = std::vector<std::pair<std::string, Tensor>>;

/// throws: Error unless `flat`, which messages call `name`, has the parameters' elements
void check_buffer(const ParameterList& parameters, const Tensor& flat, const std::string& name);

/// Writes the first values of all parameters to their flat buffer. They depend on seed, name and
/// shape alone, so a model begins the same however it is cut.
/// shapes: weights (parameters.numel())
void initialize(const ParameterList& parameters, const Tensor& weights, std::uint64_t seed);

}  // namespace paragrad::nn
