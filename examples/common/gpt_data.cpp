// Sequences of a text, copied to where they are needed.
// Chapter 05.
#include "examples/common/gpt_data.h"

namespace paragrad::examples {

std::int64_t TextExamples::validation_size() const {
  return text_->validation.evaluation_windows(context_);
}

Batch TextExamples::batch(const Part& part) const {
  if (part.step == Part::validation)
    return text_->validation.evaluation_batch(part.first, part.last, context_);
  return text_->training.batch(seed_, part.step, part.first, part.last, context_);
}

Tensor TextExamples::inputs(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).inputs, shape(part), device);
}

Tensor TextExamples::targets(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).targets, shape(part), device);
}

}  // namespace paragrad::examples
