// Model: a list of layers that can be cut into stages anywhere; Stage: one such piece, with
// weights. Not here: training. A stage computes; who steps its weights and when is somebody else's
// plan. Chapter 02.
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
  /// The same; parameters that `shared` names too live apart from the others (nn/models/cut.h).
  Stage(const Model& model, int first, int last, const ParameterList& shared);

  ParameterList& parameters() { return parameters_; }
  const ParameterList& parameters() const { return parameters_; }
  /// All parameters that the model's stages share, at the same offsets in each stage; none if this
  /// one reads none of them.
  const ParameterList& shared_parameters() const { return shared_; }

  /// Writes the first values of parameters().
  void initialize(const Tensor& weights, std::uint64_t seed) const;

  /// How the buffers that are bound from now on hold the stage's parameters: the same ones in the
  /// same order, some of them with less elements and a product of their own. The list must outlive
  /// that.
  void read_as(const ParameterList& stored) { stored_ = &stored; }

  /// Makes forward read from `weights`, a flat buffer, without gradients. A stage with shared
  /// parameters needs their buffer, too.
  void bind(const Tensor& weights, const Tensor& shared = {});
  /// The same; backward hands each contribution to a parameter's gradient to `sink`.
  using ParameterSink = std::function<void(const Parameter& parameter, const Tensor& dx)>;
  void bind(const Tensor& weights, ParameterSink sink);
  void bind(const Tensor& weights, const Tensor& shared, ParameterSink sink);

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
/// The same for a stage with shared parameters, whose gradients have a flat buffer of their own.
Stage::ParameterSink add_to_flat(const Tensor& gradients, const Tensor& shared);

}  // namespace paragrad::nn
