// Optimizers on flat buffers, the learning rate's schedule, and clipping by the global norm.
// Not here: the arithmetic of a step, which is a kernel of the backend. Chapter 02.
//
// The room nn/optimizers is this file: it updates weights from their gradients. Read Optimizer
// first, then the functions below it, which compute the settings of a step: the rate, the norm of
// the gradients, and the factor that clips them.
// An optimizer knows names and kinds of parameters only when it is made; a step acts on segments of
// three flat buffers: weights, gradients, state. So a rank that holds a shard of a stage makes an
// optimizer for ParameterList::part of it, and learns the same as a rank that holds all (ZeRO).
// The caller gives the number of gradients in a sum, and the factor that clips the whole model's
// norm: both are factors in StepSettings, and need no other pass over the gradients.
// A new optimizer is a function make_... here, and a kernel of the backend.
#pragma once

#include "autograd/backend.h"
#include "nn/models/model.h"

namespace plangrad::nn {

struct StepSettings {
  double learning_rate = 1e-3;
  double average = 1;     ///< 1 / number of gradients in the sum
  double clip = 1;        ///< the factor that clip_scale() gives
  std::int64_t step = 1;  ///< counted from 1
};

/// Updates a flat buffer of weights from a flat buffer of gradients. Its state is flat, too, so
/// that it can be cut, moved and saved like weights.
class Optimizer {
 public:
  /// The share of a new observation in a statistic (ParameterKind), per step.
  static constexpr double statistic_share = 0.1;

  /// The arguments of a kernel: flat buffers, and the segments of them that it steps.
  struct Buffers {
    Segments segments;
    Tensor gradients;
    std::vector<Tensor> state;
    Tensor master, weights;
  };
  using Kernel = std::function<void(const StepSettings& settings, const Buffers& buffers)>;

  /// Makes an optimizer for weights like these, with state buffers called `names`, initially zero;
  /// `kernel` steps all parameters but statistics.
  Optimizer(const ParameterList& parameters, const Tensor& weights,
            const std::vector<std::string>& names, Kernel kernel);

  /// shapes: weights (N) of f32, bf16 or f64, gradients (N) of gradient_dtype
  void step(const StepSettings& settings, const Tensor& weights, const Tensor& gradients);

  /// Flat buffers by name, with the layout of the weights, for checkpoints. If weights are bf16,
  /// "master" has the f32 values that steps act on.
  const FlatBuffers& state() const { return state_; }
  /// Makes the next step start from the values of `weights`. Call it after writing them.
  void reset_master(const Tensor& weights);

 private:
  Segments weights_, statistics_;  // of neighbouring parameters that a step treats alike
  FlatBuffers state_;
  bool has_master_;
  Kernel kernel_;
};

/// Makes stochastic gradient descent with momentum and decay, in the form of PyTorch's SGD.
std::unique_ptr<Optimizer> make_sgd(const ParameterList& parameters, const Tensor& weights,
                                    double momentum = 0.9, double weight_decay = 0);
/// Makes AdamW; only matrices decay.
/// source: Loshchilov and Hutter 2019, algorithm 2
std::unique_ptr<Optimizer> make_adamw(const ParameterList& parameters, const Tensor& weights,
                                      double weight_decay = 0.1, double beta1 = 0.9,
                                      double beta2 = 0.95, double epsilon = 1e-8);

/// A linear warm-up, then half a cosine down to `lowest`, as in nanoGPT.
struct LearningRate {
  double highest = 1e-3, lowest = 1e-4;
  std::int64_t warmup = 100, steps = 2000;
  /// The rate of the update that follows `step` others.
  double at(std::int64_t step) const;
};

/// The sum of squares of each parameter's gradient, 0 for statistics. To compute a norm over
/// stages, put the sums in the whole model's order (places() in model.h) and add them in f64, as
/// gradient_norm does.
/// shapes: gradients (N)
std::vector<double> sums_of_squares(const ParameterList& parameters, const Tensor& gradients);

/// The square root of the sum of squares over all parameters, added in f64 in their order, so that
/// it does not depend on the cuts of the model. Statistics do not count.
/// shapes: gradients (N)
double gradient_norm(const ParameterList& parameters, const Tensor& gradients);

/// The factor that limits the norm of gradients to `limit` (0: no limit).
/// source: Pascanu, Mikolov and Bengio 2013, algorithm 1, with PyTorch's 1e-6
double clip_scale(double norm, double limit);

}  // namespace plangrad::nn
