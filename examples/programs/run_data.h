// Examples, and the microbatches that a run's plans make of them.
// Not here: the two kinds of examples, text and images (gpt_run.h, resnet_run.h). Chapter 05.
#pragma once

#include "parallel/session/session.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Examples [first, last) of the batch of update `step`, or of the validation data.
struct Part {
  static constexpr int validation = -1;
  std::int64_t first = 0, last = 0;
  int step = validation;
  std::int64_t size() const { return last - first; }
};

/// The data that a program trains and validates on. All ranks of a process share it.
class Examples {
 public:
  virtual ~Examples() = default;
  virtual std::int64_t validation_size() const = 0;
  /// Returns the shape of inputs(part).
  virtual Shape shape(const Part& part) const = 0;
  virtual Tensor inputs(const Part& part, const DevicePtr& device) const = 0;
  /// Returns class ids or token ids, in i32.
  virtual Tensor targets(const Part& part, const DevicePtr& device) const = 0;
};

/// One rank's view of examples: microbatch m is part m % per_step, of `rows` examples, of the batch
/// of step m / per_step. Validation takes all examples, or about 20 batches of them that are spread
/// evenly, in microbatches of at most 4,096 tokens or 256 images.
std::unique_ptr<RunData> run_data(std::shared_ptr<const Examples> examples, int per_step,
                                  std::int64_t rows, std::int64_t batch);

}  // namespace plangrad::examples
