// ResnetRun: the flags that train_resnet adds to those of all training programs, for a residual
// network, its images and its optimizer; ImageExamples: the images. Not here: the program
// (examples/train_resnet.cpp), files and shuffles (nn/data/image_data.h). Chapters 02 and 05.
#pragma once

#include "examples/programs/run_data.h"
#include "examples/programs/run_flags.h"
#include "nn/data/image_data.h"
#include "parallel/engine/training.h"

namespace plangrad::examples {

struct ResnetRun : RunFlags {
  ResnetRun();

  std::int64_t width = 8;
  std::string optimizer = "sgd";
  double momentum = 0.9, weight_decay = -1;  // negative: the optimizer's default

  /// Adds every flag.
  void add_flags(Flags& flags);
  /// Parses a command line, or a saved run's flags and what the command line adds.
  /// throws: Error if a flag contradicts the saved run, or asks for something this build lacks
  void parse(Flags& flags, const Words& words);

  /// Makes a network for the size and the classes of `images`.
  /// throws: Error if training it can't fit into the machine's memory
  Model model(const ImageSet& images) const;
  parallel::MakeOptimizer make_optimizer() const;
};

/// Images as examples. A training batch has `batch_size` images in an order that follows from
/// `seed`; validation keeps the order of the files.
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

}  // namespace plangrad::examples
