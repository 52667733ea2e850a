// ResnetData: images as the microbatches of a run's plans.
// Not here: files, shuffles and normalisation (nn/data/image_data.h).
// Chapter 05.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "nn/data/image_data.h"
#include "parallel/session/session.h"

namespace paragrad::examples {

using namespace paragrad::parallel;

/// Grey images, copied to where they are needed.
/// shapes: inputs (N,1,H,W) of `dtype`, targets (N)
class ImageBatches : public Batches {
 public:
  ImageBatches(const ImageSet& images, DType dtype) : images_(images), dtype_(dtype) {}

  Shape shape(int micro) const override {
    return {size(micro), 1, images_.height(), images_.width()};
  }
  Tensor inputs(int micro, const DevicePtr& device) override {
    return from_host(batch(micro).images, shape(micro), device, dtype_);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return from_host(batch(micro).labels, {size(micro)}, device);
  }

 protected:
  const ImageSet& images() const { return images_; }

 private:
  virtual std::int64_t size(int micro) const = 0;
  virtual ImageBatch batch(int micro) const = 0;

  const ImageSet& images_;
  DType dtype_;
};

/// Microbatch m is part m % per_step of the batch of step m / per_step, `rows` images of it.
class ResnetBatches : public ImageBatches {
 public:
  ResnetBatches(const ImageSet& images, DType dtype, std::uint64_t seed, int per_step,
                std::int64_t rows)
      : ImageBatches(images, dtype), seed_(seed), per_step_(per_step), rows_(rows) {}

 private:
  std::int64_t size(int) const override { return rows_; }
  ImageBatch batch(int micro) const override {
    std::int64_t first = micro % per_step_ * rows_;
    return images().batch(seed_, micro / per_step_, per_step_ * rows_, first, first + rows_);
  }

  std::uint64_t seed_;
  int per_step_;
  std::int64_t rows_;
};

/// The images in their order, `rows` at a time; about `limit` such batches (0: all), spread evenly.
class ResnetValidation : public ImageBatches {
 public:
  ResnetValidation(const ImageSet& images, DType dtype, std::int64_t rows, int limit)
      : ImageBatches(images, dtype) {
    std::int64_t batches = (images.size() + rows - 1) / rows;
    std::int64_t stride = limit > 0 ? (batches + limit - 1) / limit : 1;
    for (std::int64_t b = 0; b < batches; b += stride)
      spans_.emplace_back(b * rows, std::min((b + 1) * rows, images.size()));
  }

  /// The number of images in each microbatch.
  std::vector<double> weights() const {
    std::vector<double> result;
    for (auto [first, last] : spans_) result.push_back(static_cast<double>(last - first));
    return result;
  }

 private:
  std::int64_t size(int micro) const override {
    auto [first, last] = spans_.at(micro);
    return last - first;
  }
  ImageBatch batch(int micro) const override {
    auto [first, last] = spans_.at(micro);
    return images().evaluation_batch(first, last);
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> spans_;
};

/// One rank's view of the images; they themselves are shared.
class ResnetData : public RunData {
 public:
  ResnetData(const ResnetBatches& training, const ImageSet& validation, DType dtype,
             std::int64_t rows)
      : training_(training), few_(validation, dtype, rows, 20), all_(validation, dtype, rows, 0) {}

  Batches& training() override { return training_; }
  Batches& validation(bool all) override { return all ? all_ : few_; }
  std::vector<double> validation_weights(bool all) const override {
    return (all ? all_ : few_).weights();
  }

 private:
  ResnetBatches training_;
  ResnetValidation few_, all_;
};

}  // namespace paragrad::examples
