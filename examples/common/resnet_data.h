// ImageExamples: grey images and what they show, as the examples of a run.
// Not here: files, shuffles and normalisation (nn/data/image_data.h); microbatches (run_data.h).
// Chapter 05.
#pragma once

#include "examples/common/run_data.h"
#include "nn/data/image_data.h"

namespace paragrad::examples {

/// A training batch has `batch_size` images of an order that follows from `seed`; validation has
/// them in their own order.
/// shapes: inputs (N,1,H,W) of `dtype`, targets (N)
class ImageExamples : public Examples {
 public:
  ImageExamples(std::shared_ptr<const ImageData> images, DType dtype, std::uint64_t seed,
                std::int64_t batch_size)
      : images_(std::move(images)), dtype_(dtype), seed_(seed), batch_size_(batch_size) {}

  std::int64_t validation_size() const override { return images_->validation.size(); }
  Shape shape(const Part& part) const override;
  Tensor inputs(const Part& part, const DevicePtr& device) const override;
  Tensor targets(const Part& part, const DevicePtr& device) const override;

 private:
  ImageBatch batch(const Part& part) const;

  std::shared_ptr<const ImageData> images_;
  DType dtype_;
  std::uint64_t seed_;
  std::int64_t batch_size_;
};

}  // namespace paragrad::examples
