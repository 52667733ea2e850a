// train_resnet: trains ResNet-18, or a narrow one, to classify images, on one or many ranks. See
// --help. Not here: flags and data (examples/programs/resnet_run.h), ranks and signals
// (examples/programs/run_session.h), and a run's work from its first update to its last
// (parallel/session/session.h). Chapters 02 and 05.
#include "examples/programs/program.h"
#include "examples/programs/resnet_run.h"
#include "examples/programs/train_program.h"
#include "nn/models/resnet.h"

namespace {

using namespace plangrad::parallel;
using namespace plangrad::examples;

RunSettings settings_of(const ResnetRun& run, const ImageData& data, const RunLayout& layout,
                        const Training& training) {
  const std::string sizes = text(data.training.size(), " images of ", data.training.classes(),
                                 " classes to train on, ", data.validation.size(), " to validate");
  RunSettings settings =
      session_settings(run, layout, training, nlohmann::json::object(),
                       {data.training.checksum(), data.validation.checksum()}, sizes);
  settings.observed.unit = run.examples;
  settings.observed.units_per_step = layout.rows_per_step();
  for (const LayerSpec& layer : training.model)  // a backward has twice as many as a forward
    settings.observed.flops_per_unit += 3 * layer.flops;
  return settings;
}

ReadyRun prepare(const ResnetRun& run, int started) {
  const RunLayout layout(run, started, /*tied*/ false, resnet18_layers);
  const auto data = std::make_shared<const ImageData>(load_image_data(run.data.string()));
  PG_CHECK(layout.rows_per_step() <= data->training.size(), "--batch ", run.batch, ": there are ",
           counted(data->training.size(), "image"), " to train on; use a smaller batch");
  check_resume(run, {data->training.checksum(), data->validation.checksum()});
  Training training = layout.training(run.model(data->training));
  training.optimizer = run.make_optimizer();
  training.count_accuracy = true;
  const RunSettings settings = settings_of(run, *data, layout, training);
  const auto examples =
      std::make_shared<ImageExamples>(data, training.dtype, training.seed, layout.rows_per_step());
  return {training, settings, layout, examples};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags(
      "Trains ResNet-18, or a narrow one, to classify small grey images, on one or many ranks. "
      "Writes to a folder: metrics (metrics.jsonl, metrics.csv, and events for TensorBoard), "
      "summary.json, trace.json, report.html and checkpoint/.",
      "train_resnet");
  ResnetRun run;
  run.add_flags(flags);
  add_examples(
      flags,
      {{"Train on two replicas", "train_resnet --data fashion-mnist --data-parallel 2 --steps 500"},
       {"Cut the model into four stages",
        "train_resnet --data fashion-mnist --schedule 1f1b --stages 4 --microbatches 4"},
       {"Continue the newest run", "train_resnet --resume runs/latest --steps 4000"}});
  return train_program(flags, run, argc, argv, prepare);
}
