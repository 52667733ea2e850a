// Model: a list of layers that can be cut into stages anywhere; Stage: one such piece, with
// weights. Not here: training. A stage computes; who steps its weights and when is somebody else's
// plan. Chapter 02.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/graph.h"
#include "nn/parameter.h"

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
};

/// A network as data. Every rank holds all of it and builds only its own stages.
using Model = std::vector<LayerSpec>;

/// Layers [first, last) of a model.
class Stage {
 public:
  /// throws: Error if the range is empty or outside the model
  Stage(const Model& model, int first, int last);

  ParameterList& parameters() { return parameters_; }
  const ParameterList& parameters() const { return parameters_; }

  /// Writes the first values of all parameters. They depend on seed, name and shape alone, so a
  /// model begins the same however it is cut.
  /// shapes: weights (parameters().numel())
  void initialize(const Tensor& weights, std::uint64_t seed) const;

  /// Makes forward read from `weights`, a flat buffer, without gradients.
  void bind(const Tensor& weights);
  /// The same; backward hands each contribution to a parameter's gradient to `sink`.
  using ParameterSink = std::function<void(const Parameter& parameter, const Tensor& dx)>;
  void bind(const Tensor& weights, ParameterSink sink);

  /// throws: Error if no weights are bound
  Tensor forward(Tensor x, const Pass& pass) const;

 private:
  ParameterList parameters_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// A sink that adds every contribution to a flat buffer like the weights'.
Stage::ParameterSink add_to_flat(const Tensor& gradients);

}  // namespace paragrad::nn
