// The flags of train_resnet, an estimate of the memory that a run needs, and images, copied to a
// rank's device. Chapters 02 and 05.
#include "examples/programs/resnet_run.h"

#include "nn/models/resnet.h"

namespace plangrad::examples {

ResnetRun::ResnetRun() {
  program = "train_resnet";
  examples = "images";
  kind_of_data = "set of images";
  data = "fashion-mnist";
  batch = 64;
  steps = 1000;
  learning_rate = 0;  // the optimizer's default
  clip = 0;
}

void ResnetRun::add_flags(Flags& flags) {
  flags.group("Model");
  flags.whole("--width", width, 1,
              "channels in the first of four groups of blocks; 64 is ResNet-18");

  flags.group("Data");
  flags
      .words("--data", data, "NAME",
             "fashion-mnist, or a folder of equally named IDX files; validates on test images")
      .show_default();

  add_length_flags(flags, "highest learning rate (default: 0.05 for sgd, 0.001 for adamw)");
  flags.choice("--optimizer", optimizer, {"sgd", "adamw"}, "what turns gradients into updates");
  flags.number("--momentum", momentum, 0, 0.999999, "momentum of sgd");
  flags.number(
      "--weight-decay", weight_decay, 0, limits::large,
      "decay (default: sgd 5e-4, for all weights; adamw 0.1, for kernels and matrices only)");
  add_run_flags(flags);
}

void ResnetRun::parse(Flags& flags, const Words& words) {
  RunFlags::parse(flags, words, {"--width", "--batch", "--seed", "--dtype", "--optimizer"});
  const bool sgd = optimizer == "sgd";
  if (learning_rate == 0) learning_rate = sgd ? 0.05 : 0.001;
  if (weight_decay < 0) weight_decay = sgd ? 5e-4 : 0.1;
  saved["--learning-rate"] = learning_rate;
  saved["--weight-decay"] = weight_decay;
  check();
  // Save an absolute path, so that a run can be resumed from another folder.
  if (std::filesystem::exists(data)) saved["--data"] = std::filesystem::absolute(data).string();
}

Model ResnetRun::model(const ImageSet& images) const {
  Model model = resnet18({.channels = 1,
                          .size = std::max(images.height(), images.width()),
                          .classes = images.classes(),
                          .width = width});
  // Count weights, gradients and optimizer state, and three tensors as large as the stem's output.
  const double parameters = static_cast<double>(whole_parameters(model).numel());
  const double kept = parts.layout.recompute ? 0 : 3 * parts.smallest_share(batch, ranks);
  const double pixels = static_cast<double>(images.height() * images.width());
  check_memory((optimizer == "sgd" ? 12 : 16) * parameters +
                   autograd::size_of(type()) * kept * pixels * static_cast<double>(width),
               "a smaller --width or --batch, or more --microbatches");
  return model;
}

parallel::MakeOptimizer ResnetRun::make_optimizer() const {
  if (optimizer == "adamw")
    return [decay = weight_decay](const ParameterList& parameters, const Tensor& weights) {
      return make_adamw(parameters, weights, decay);
    };
  return
      [decay = weight_decay, m = momentum](const ParameterList& parameters, const Tensor& weights) {
        return make_sgd(parameters, weights, m, decay);
      };
}

ImageBatch ImageExamples::batch(const Part& part) const {
  if (part.step == Part::validation)
    return images_->validation.evaluation_batch(part.first, part.last);
  return images_->training.batch(seed_, part.step, batch_size_, part.first, part.last);
}

/// Takes the size from the training images: those of both sets have the same size.
Shape ImageExamples::shape(const Part& part) const {
  return {part.size(), 1, images_->training.height(), images_->training.width()};
}

Tensor ImageExamples::inputs(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).images, shape(part), device, dtype_);
}

Tensor ImageExamples::targets(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).labels, {part.size()}, device);
}

}  // namespace plangrad::examples
