// Images, copied to where they are needed.
// Chapter 05.
#include "examples/common/resnet_data.h"

namespace paragrad::examples {

ImageBatch ImageExamples::batch(const Part& part) const {
  if (part.step == Part::validation)
    return images_->validation.evaluation_batch(part.first, part.last);
  return images_->training.batch(seed_, part.step, batch_size_, part.first, part.last);
}

/// All images of both sets have one size.
Shape ImageExamples::shape(const Part& part) const {
  return {part.size(), 1, images_->training.height(), images_->training.width()};
}

Tensor ImageExamples::inputs(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).images, shape(part), device, dtype_);
}

Tensor ImageExamples::targets(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).labels, {part.size()}, device);
}

}  // namespace paragrad::examples
