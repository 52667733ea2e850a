// Parameter: a named tensor of a model; Model: a list of layers that can be cut into stages
// anywhere; Stage: a range of layers with weights; the effects of cuts; the modules that layers are
// made of. Not here: training, and the ranks of stages. Chapters 02 and 06.
//
// The room nn/models builds networks that can be cut, and computes with them on one device:
// model.h  parameters, layers as data, stages of them, what stages share; Linear, LayerNorm
// gpt.h    GPT-2; resnet.h: ResNet-18 for small images
// All weights of a stage are in one flat buffer, which the stage does not own: its owner updates,
// cuts, sends and saves it as one vector. Gradients leave through a sink, one parameter after the
// other, while backward runs. A parameter has one name everywhere, so a checkpoint and the initial
// values are the same for every cut of a model.
// A new model is a file here that returns a Model, and a program that offers it.
#pragma once

#include <list>
#include <unordered_set>

#include "autograd/ops.h"

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

/// Computes x W^T + bias from the stored values of W, whose others are zero; bias may be undefined.
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
  /// Returns the parameter `name`, made on first use; layers share it by name (tied embeddings).
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

/// The arguments of a forward pass beside its input.
struct Pass {
  bool training = false;        ///< use dropout and batch statistics
  std::uint64_t seed = 0;       ///< the run's seed
  std::int64_t microbatch = 0;  ///< counted over the run; the seed, this number and a layer's name
                                ///< decide which values dropout drops
  bool recompute = false;  ///< keep only the inputs of layers; backward computes the rest again
};

/// One layer of a model: computes activations from activations.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensor forward(const Tensor& x, const Pass& pass) const = 0;
  /// The cross-entropy of forward's result, which a layer may compute in a way of its own.
  virtual Tensor loss(const Tensor& x, const Tensor& targets, const Pass& pass) const;
};

/// A layer that is not built yet.
struct LayerSpec {
  std::string name;
  std::function<std::unique_ptr<Layer>(ParameterList&)> build;
  double flops = 0;  ///< work of one example's forward pass; a multiply-add counts as two
  std::function<Shape(const Shape& input)> output = {};  ///< the output's shape for this input
  std::vector<LayerSpec> halves = {};  ///< two layers with the same bits, if it can be cut in two
};

/// A network as data. Every rank holds all of it and builds only its own stages.
using Model = std::vector<LayerSpec>;

/// A model in stages: stage s is layers [cuts[s], cuts[s + 1]).
struct CutModel {
  Model model;
  std::vector<int> cuts;
};

/// Cuts a model by hand. A layer that is cut in two becomes two layers.
///   begins: the layers, counted from 0, at which the stages after the first begin; 1.5 is between
///           the halves of layer 1
/// throws: Error if a layer is not there, or has no halves
CutModel cut_model(const Model& model, const std::vector<double>& begins);
/// All places at which a stage can begin, from 0 on.
std::vector<double> cut_places(const Model& model);

/// A range of a model's layers, built, with parameters that can be bound to weights.
class Stage {
 public:
  /// Builds layers [first, last); the parameters that `shared` names have a buffer of their own.
  /// throws: Error if the range is empty or outside the model
  Stage(const Model& model, int first, int last, const ParameterList& shared = {});

  ParameterList& parameters() { return parameters_; }
  const ParameterList& parameters() const { return parameters_; }
  /// All parameters that stages share, at the same offsets in each; empty if this one reads none.
  const ParameterList& shared_parameters() const { return shared_; }

  /// Declares how buffers that are bound later hold the parameters: the same parameters in the same
  /// order, some with fewer elements and a product of their own. The list must outlive its use.
  void read_as(const ParameterList& stored) { stored_ = &stored; }

  /// Makes forward read from `weights`, a flat buffer; a stage with shared parameters needs their
  /// buffer, too. Backward hands each contribution to a parameter's gradient to `sink`; without a
  /// sink, no graph is recorded.
  using ParameterSink = autograd::Sink<const Parameter&>;
  void bind(const Tensor& weights, const ParameterSink& sink = {}, const Tensor& shared = {});

  /// Releases the weights; graphs keep those that backward needs.
  void unbind();

  /// The last layer's result, or its loss if there are targets. throws: Error without weights
  Tensor forward(Tensor x, const Pass& pass, const Tensor& targets = {}) const;

 private:
  ParameterList parameters_, shared_;
  const ParameterList* stored_ = nullptr;  // null: parameters_
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// Makes a sink that adds every contribution to a flat buffer with the layout of the weights.
Stage::ParameterSink add_to_flat(const Tensor& gradients);

/// The shape of the output of layers [first, last) for this input's shape. Nothing is built.
/// throws: Error if the range is outside the model, or a layer does not declare its output
Shape output_shape(const Model& model, int first, int last, Shape input);

/// All parameters of the model, without values, in the order that sums over parameters follow.
ParameterList whole_parameters(const Model& model);

/// The places of the parameters of `part` in `whole`, counted from 0.
/// throws: Error if `whole` lacks a parameter
std::vector<std::size_t> places(const ParameterList& part, const ParameterList& whole);

/// The parameters that two or more stages read, such as a GPT's tied table, in the whole model's
/// order, with offsets in a flat buffer of their own; and the stages that read them.
struct Shared {
  ParameterList parameters;
  std::vector<int> stages;  ///< ascending
};

/// Finds the parameters that stages share, if stage s is layers [cuts[s], cuts[s + 1]).
/// throws: Error unless the cuts begin with 0, ascend, and end with the number of layers
Shared shared_parameters(const Model& model, const std::vector<int>& cuts);

/// x weight^T + bias; bias may be undefined.
inline Tensor linear(const Tensor& x, const Parameter& weight, const Tensor& bias = {}) {
  if (weight.product) return weight.product(x, weight.value, bias);
  return autograd::linear(x, weight.value, bias);
}

/// Makes a LayerSpec::build function that builds a layer of type L from these arguments.
template <class L, class... Arguments>
auto builds(const Arguments&... arguments) {
  return [=](ParameterList& list) { return std::make_unique<L>(list, arguments...); };
}

/// y = x weight^T + bias.                                           weight (Out,In), bias (Out)
class Linear {
 public:
  Linear(ParameterList& list, const std::string& name, std::int64_t in, std::int64_t out, Init init,
         Init bias = Init::constant(0))
      : weight_(list.add(name + ".weight", {out, in}, init)),
        bias_(list.add(name + ".bias", {out}, bias)) {
    weight_.multiplies = true;
  }

  Tensor forward(const Tensor& x) const { return linear(x, weight_, bias_.value); }
  /// gelu(forward(x)) with the bias and the GELU in one pass.
  Tensor forward_gelu(const Tensor& x) const { return bias_gelu(linear(x, weight_), bias_.value); }

 private:
  Parameter &weight_, &bias_;
};

/// Layer norm over the last dimension.                                  weight (C), bias (C)
class LayerNorm {
 public:
  LayerNorm(ParameterList& list, const std::string& name, std::int64_t width)
      : weight_(list.add(name + ".weight", {width}, Init::constant(1))),
        bias_(list.add(name + ".bias", {width}, Init::constant(0))) {}

  Tensor forward(const Tensor& x) const { return layer_norm(x, weight_.value, bias_.value); }
  /// x + a, and forward(x + a), in one pass.
  SumAndNorm forward(const Tensor& x, const Tensor& a) const {
    return add_layer_norm(x, a, weight_.value, bias_.value);
  }

 private:
  Parameter &weight_, &bias_;
};

}  // namespace plangrad::nn
