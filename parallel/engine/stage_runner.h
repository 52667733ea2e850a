// StageRunner: one stage of the model on one rank: computes microbatches forward and backward and
// keeps the activations between. The engine and the serial interpreter both use it. Also the time
// that a thread computes.
// Not here: weights and sums (weight_store.h), messages, and the loss (autograd/ops.h). Chapter 06.
#pragma once

#include <ctime>
#include <optional>

#include "autograd/weight_part.h"
#include "parallel/engine/training.h"

namespace plangrad::parallel {

/// Seconds that a core has spent on the calling thread. While the thread waits for its turn on a
/// core, or for something else, this clock stands. It doesn't count what other threads do for this
/// one: the helpers of a kernel on several threads, or a GPU.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class StageRunner {
 public:
  /// throws: Error if the training has no such stage
  StageRunner(const Training& training, int stage, const DevicePtr& device);

  const ParameterList& parameters() const { return stage_.parameters(); }
  const ParameterList& shared_parameters() const { return stage_.shared_parameters(); }
  /// Sets how the weights of the next forwards are stored (Stage::read_as).
  void read_as(const ParameterList& stored) { stage_.read_as(stored); }

  /// Whether the microbatch's forward is done and its backward is not.
  bool under_way(int micro) const { return kept_.contains(micro); }

  /// The inputs of a forward.
  struct Inputs {
    Tensor x = {};        ///< undefined if it is computed again: the first one was kept
    Tensor targets = {};  ///< what the last stage should predict
    Tensor weights = {}, shared = {};  ///< flat; the graph keeps windows on them, not copies
    bool training = true;
    Stage::ParameterSink sink;  ///< takes the weights' gradients, when backward makes them
  };
  /// Returns the stage's output; on the last stage the microbatch's mean loss in nats.
  Tensor forward(int micro, const Inputs& inputs);

  /// The share of right predictions, where an evaluation counted them on the last stage.
  std::optional<double> accuracy(int micro) const { return kept_.at(micro).accuracy; }

  /// Frees the activations of a microbatch; its input stays if training needs it again.
  void drop(int micro);

  /// Returns the gradient of the stage's input, undefined on stage 0.
  ///   part:            as in an instruction: all of it (none), or the first or second part. The
  ///                    second may run at any time after the first. In between, only what it needs
  ///                    is kept: inputs of layers and gradients of their outputs (WeightPart)
  ///   weights, shared: what it reads: the values that are there now, in the memory that the
  ///                    forward read. With drift, steps have overwritten those of the forward
  /// shapes: dy as forward's output; undefined on the last stage
  /// throws: Error if the weights are in other memory
  Tensor backward(int micro, const Tensor& dy, Value part, const Tensor& weights,
                  const Tensor& shared = {});

 private:
  friend struct TableSizes;  // of tests
  struct Activations {
    Tensor x, y;
    Inputs inputs;
    autograd::WeightPart later;  // the second part of a backward whose first part is done
    std::optional<double> accuracy;
  };

  void bind(int micro);

  const Training& training_;
  DevicePtr device_;
  bool first_, last_;
  Stage stage_;
  std::map<int, Activations> kept_;
};

}  // namespace plangrad::parallel
