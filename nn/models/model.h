// Model: a list of layers that can be cut into stages anywhere; Stage: one such piece, with
// weights; what cuts mean. Not here: training, and who runs which stage. Chapters 02 and 06.
//
// The room nn/models builds networks that can be cut, and computes with them on one device:
// parameter.h  a named tensor and its place in a flat buffer; the list that layers add theirs to
// model.h      layers as data, stages of them, and what two stages share
// layers.h     the modules that layers are made of
// gpt.h        GPT-2; resnet.h: ResNet-18 for small images
// sample.h     from logits to the next token
// All weights of a stage lie in one flat buffer, which the stage does not own: whoever holds it
// steps it, cuts it, sends it and saves it as one vector. Gradients leave by a sink, one parameter
// after the other, while backward runs. A parameter is known by its name everywhere, so a
// checkpoint and the first values are the same however a model is cut.
// Another model is a file here that returns a Model, and a program that offers it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/graph.h"
#include "nn/models/parameter.h"

namespace paragrad::nn {

/// What a forward pass must know beside its input.
struct Pass {
  bool training = false;        ///< dropout and batch statistics
  std::uint64_t seed = 0;       ///< of the run
  std::int64_t microbatch = 0;  ///< counted over the run; with the seed and a layer's name it
                                ///< decides what dropout drops
  bool recompute = false;  ///< keep only what enters each layer; backward computes the rest again
};

/// One step of a model, from activation to activation.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensor forward(const Tensor& x, const Pass& pass) const = 0;
};

/// A layer that is not built yet.
struct LayerSpec {
  std::string name;
  std::function<std::unique_ptr<Layer>(ParameterList&)> build;
  double flops = 0;  ///< of one example's forward pass, multiply and add counted apart
  std::function<Shape(const Shape& input)> output = {};  ///< shape of what it makes of an input
};

/// A network as data. Every rank holds all of it and builds only its own stages.
using Model = std::vector<LayerSpec>;

/// Layers [first, last) of a model.
class Stage {
 public:
  /// throws: Error if the range is empty or outside the model
  Stage(const Model& model, int first, int last);
  /// A stage whose parameters that `shared` names, too, live apart from the others.
  Stage(const Model& model, int first, int last, const ParameterList& shared);

  ParameterList& parameters() { return parameters_; }
  const ParameterList& parameters() const { return parameters_; }
  /// All parameters that the model's stages share, at the same offsets in each stage; none if this
  /// one reads none of them.
  const ParameterList& shared_parameters() const { return shared_; }

  /// How the buffers that are bound from now on hold the stage's parameters: the same ones in the
  /// same order, some of them with less elements and a product of their own. The list must outlive
  /// that.
  void read_as(const ParameterList& stored) { stored_ = &stored; }

  /// Makes forward read from `weights`, a flat buffer; a stage with shared parameters needs their
  /// buffer, too. Backward hands each contribution to a parameter's gradient to `sink`; without
  /// one, nothing is recorded.
  using ParameterSink = std::function<void(const Parameter& parameter, const Tensor& dx)>;
  void bind(const Tensor& weights, const ParameterSink& sink = {}, const Tensor& shared = {});

  /// Lets go of the weights. What backward needs of them, a graph keeps.
  void unbind();

  /// throws: Error if no weights are bound
  Tensor forward(Tensor x, const Pass& pass) const;

 private:
  ParameterList parameters_, shared_;
  const ParameterList* stored_ = nullptr;  // null: parameters_
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// A sink that adds every contribution to a flat buffer like the weights'.
Stage::ParameterSink add_to_flat(const Tensor& gradients);

/// Shape of what layers [first, last) make of an input of this shape. Nothing is built.
/// throws: Error if the range is outside the model, or a layer does not tell
Shape output_shape(const Model& model, int first, int last, Shape input);

/// All parameters of the model, without values, in the order that sums over parameters follow.
ParameterList whole_parameters(const Model& model);

/// For each parameter of `part`, its place in `whole`: 0, 1, 2, ...
/// throws: Error if it has none
std::vector<std::size_t> places(const ParameterList& part, const ParameterList& whole);

/// Parameters that two or more stages read (a GPT's tied table, which embedding and head read), in
/// the whole model's order, with offsets in a flat buffer of their own; and which stages these are.
struct Shared {
  ParameterList parameters;
  std::vector<int> stages;  ///< ascending
};

/// Finds the parameters that stages share, where stage s is layers [cuts[s], cuts[s + 1]).
/// throws: Error unless the cuts begin with 0, ascend, and end with the number of layers
Shared shared_parameters(const Model& model, const std::vector<int>& cuts);

}  // namespace paragrad::nn
