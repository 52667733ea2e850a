// ResnetRun: the flags of train_resnet beside those that all training programs have: a residual
// network, its images and its optimizer; and the images as examples. Not here: what flags lead to
// (examples/train_resnet.cpp), files and shuffles (nn/data/image_data.h). Chapters 02 and 05.
#pragma once

#include "examples/common/run_data.h"
#include "examples/common/run_flags.h"
#include "nn/data/image_data.h"
#include "parallel/engine/training.h"

namespace paragrad::examples {

struct ResnetRun : RunFlags {
  ResnetRun();

  std::int64_t width = 8;
  std::string optimizer = "sgd";
  double momentum = 0.9, weight_decay = -1;  // negative: the optimizer's default

  /// Describes every flag to `app`.
  void add_flags(CLI::App& app);
  /// Parses a command line, or a saved run's flags and what the command line adds.
  /// throws: Error if a flag contradicts the saved run, or asks for what this build has not
  void parse(CLI::App& app, int argc, char** argv);

  /// For images and classes like these.
  /// throws: Error if its training can't fit into the memory
  Model model(const ImageSet& images) const;
  parallel::MakeOptimizer make_optimizer() const;
};

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
