// Parameter: a named tensor of a model; ParameterList: collects parameters while layers are built.
// Not here: values. They are in a flat buffer, to which a stage binds its parameters.
// Chapter 02.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/tensor.h"

namespace plangrad::nn {

using namespace autograd;

/// The distribution of a parameter's initial values, drawn from the sequence (seed, name).
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double a = 0, b = 0;  ///< the constant; mean and deviation; lowest and highest

  static Init constant(double value) { return {Kind::constant, value, 0}; }
  static Init normal(double deviation) { return {Kind::normal, 0, deviation}; }
  static Init uniform(double bound) { return {Kind::uniform, -bound, bound}; }
};

/// Kinds of parameters: a weight is learnt from its gradient; a statistic follows the average of
/// observations, which arrive as its "gradient" (batch norm).
enum class ParameterKind { weight, statistic };

/// Computes x W^T + bias from the stored values of a weight matrix W whose other elements are zero;
/// bias may be undefined.
/// shapes: x (...,In), values like the parameter's, bias (Out) -> (...,Out)
using Product = std::function<Tensor(const Tensor& x, const Tensor& values, const Tensor& bias)>;

struct Parameter {
  std::string name;
  Shape shape;
  Init init;
  ParameterKind kind = ParameterKind::weight;
  std::int64_t offset = 0;    ///< place of its first element in the flat buffer
  bool shared = false;        ///< other stages read it, too: it is in a flat buffer of its own
  bool decays = false;        ///< weight decay is for matrices, not for biases and norms (GPT-2)
  bool multiplies = false;    ///< it is read by linear() only (nn/models/model.h)
  Tensor value = {};          ///< read by forward: a window on the flat buffer that is bound now
  Product product = nullptr;  ///< replaces linear() if the value has only some elements
};

/// The parameters of a stage in flat-buffer order. Addresses stay valid while the list grows.
class ParameterList {
 public:
  /// Returns the parameter `name`, made on first use; layers that use the same name share it (tied
  /// embeddings).
  /// throws: Error if it exists with another shape
  Parameter& add(const std::string& name, const Shape& shape, Init init,
                 ParameterKind kind = ParameterKind::weight);

  /// Moves parameters that `shared` names, too, to a list with the offsets of `shared`; the list is
  /// empty if there are none. The offsets of the others close the gaps.
  ParameterList take(const ParameterList& shared);

  /// A list for elements [first, last) of the flat buffer, on which the optimizer of a shard acts.
  /// Each parameter is a vector of its elements in this range; the list's buffer has last - first
  /// elements.
  ParameterList part(std::int64_t first, std::int64_t last) const;

  /// The number of elements of all parameters together.
  std::int64_t numel() const { return numel_; }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  std::size_t size() const { return parameters_.size(); }

 private:
  std::list<Parameter> parameters_;
  std::unordered_set<std::string> names_;  // of those that add() made
  std::int64_t numel_ = 0;
};

/// Flat buffers by name, as optimizers and checkpoints keep them. The weights' name is "".
using FlatBuffers = std::vector<std::pair<std::string, Tensor>>;

/// throws: Error that calls the buffer `name`, unless `flat` has as many elements as the parameters
void check_buffer(const ParameterList& parameters, const Tensor& flat, const std::string& name);

/// Writes initial values of all parameters to their flat buffer. They depend on seed, name and
/// shape alone, so they are the same for every cut of a model.
/// shapes: weights (parameters.numel())
void initialize(const ParameterList& parameters, const Tensor& weights, std::uint64_t seed);

}  // namespace plangrad::nn
