// ResnetRun: the flags of train_resnet beside those that all training programs have: a residual
// network, its images and its optimizer. Not here: what they lead to (examples/train_resnet.cpp).
// Chapter 02.
#pragma once

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

}  // namespace paragrad::examples
