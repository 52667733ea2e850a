// The meter of the blank device is read where the engine's memory changes: a forward, a backward,
// and a backward in two parts. Of stages that cost the same one is run.
// Chapters 03 and 09.
#include "parallel/planner/layer_costs.h"

#include "autograd/blank/blank_device.h"
#include "parallel/codecs/low_rank.h"
#include "parallel/engine/stage_runner.h"

namespace plangrad::parallel {
namespace {

/// A stage on a device, and the bytes that it has there beside its weights and sums.
class StageRun {
 public:
  StageRun(const Training& training, int stage, const DevicePtr& device)
      : training_(training), stage_(stage), device_(device), runner_(training, stage, device) {
    inputs_.weights = flat(runner_.parameters(), training.dtype, Category::weights);
    inputs_.shared = flat(runner_.shared_parameters(), training.dtype, Category::weights);
    inputs_.sink = {[this](const Parameter& p, const Tensor&) { sum_of(p); },
                    [this](const Parameter& p) { return place(p); }};
    before_ = meter().live();
  }

  const ParameterList& parameters() const { return runner_.parameters(); }
  /// Bytes beside weights and whole sums.
  std::int64_t now() const { return meter().live() - before_ - bytes_of_sums(); }
  std::int64_t most() const { return meter().peak() - before_ - bytes_of_sums(); }
  /// Lets the next backward begin its sums anew.
  void drop_sums() { sums_ = shared_sums_ = {}; }

  /// Returns the bytes of the output; for the last stage, of the loss.
  std::int64_t forward(int micro, const MakeTensor& input, const MakeTensor& target) {
    begin();
    inputs_.x = input();
    input_bytes = inputs_.x.bytes();
    if (is_last()) inputs_.targets = target();
    const Tensor y = runner_.forward(micro, inputs_);
    inputs_.x = inputs_.targets = {};
    output_ = y.shape();
    return y.bytes();
  }

  void backward(int micro, Value part) {
    begin();
    Tensor dy;
    if (!is_last() && part != Value::weight_part) dy = zeros(output_, training_.dtype, device_);
    runner_.backward(micro, dy, part, inputs_.weights, inputs_.shared);
  }

  std::int64_t input_bytes = 0;

 private:
  MemoryMeter& meter() const { return device_->meter(); }
  bool is_last() const { return stage_ == training_.stages() - 1; }
  void begin() {
    take_kernels(*device_);
    meter().reset_peaks();
  }
  Tensor flat(const ParameterList& list, DType dtype, Category category) const {
    const CategoryScope scope(*device_, category);
    return list.size() > 0 ? zeros({list.numel()}, dtype, device_) : Tensor();
  }
  std::int64_t bytes_of_sums() const { return meter().live(Category::gradients); }
  const Tensor& sum_of(const Parameter& parameter) {
    Tensor& sum = parameter.shared ? shared_sums_ : sums_;
    if (!sum.defined())
      sum = flat(parameter.shared ? runner_.shared_parameters() : runner_.parameters(),
                 gradient_dtype(training_.dtype), Category::gradients);
    return sum;
  }
  SumPlace place(const Parameter& parameter) {
    if (!device_->backend().adds_whole_sums()) return {};
    return {sum_of(parameter).window(parameter.offset, parameter.shape), true};
  }

  const Training& training_;
  const int stage_;
  const DevicePtr device_;
  StageRunner runner_;
  StageRunner::Inputs inputs_;
  Tensor sums_, shared_sums_;
  Shape output_;
  std::int64_t before_ = 0;
};

}  // namespace

StageCosts run_stage(const Training& training, int stage, const DevicePtr& device,
                     const MakeTensor& input, const MakeTensor& target) {
  StageRun run(training, stage, device);
  StageCosts costs;
  StageBytes& bytes = costs.bytes;
  StageWork& work = costs.work;
  bytes.output = run.forward(0, input, target);
  bytes.input = run.input_bytes;
  bytes.kept = run.now();
  bytes.forward = run.most() - bytes.kept;
  work.forward = take_kernels(*device);
  run.backward(0, Value::none);
  bytes.opening = run.most() - bytes.kept;
  work.backward = take_kernels(*device);
  run.forward(1, input, target);
  run.backward(1, Value::none);
  bytes.backward = run.most() - bytes.kept;

  for (std::int64_t StageBytes::*part : {&StageBytes::opening_part, &StageBytes::weight_part}) {
    if (part == &StageBytes::opening_part) run.drop_sums();
    run.forward(2, input, target);
    run.backward(2, Value::input_part);
    bytes.input_part = run.most() - bytes.kept;
    bytes.waiting = run.now();
    work.input_part = take_kernels(*device);
    run.backward(2, Value::weight_part);
    bytes.*part = run.most() - bytes.waiting;
    work.weight_part = take_kernels(*device);
  }
  return costs;
}

namespace {

StageCosts blank_run(const Training& training, int stage, const PlannedModel& model,
                     const CostSettings& settings) {
  const DevicePtr device = blank_device(settings.like);
  auto shape = [&](std::vector<std::int64_t> example) {
    example.insert(example.begin(), settings.examples);
    return Shape(example);
  };
  const bool has_ids = stage == 0 && model.vocabulary > 0;
  const Shape input = output_shape(training.model, 0, training.cuts[stage], shape(model.input));
  return run_stage(
      training, stage, device,
      [&] { return empty(input, has_ids ? DType::i32 : training.dtype, device); },
      [&] { return empty(shape(model.target), DType::i32, device); });
}

/// The state of a stage, as it is stored.
void add_state(StageCosts& costs, const ParameterList& parameters, const ModelCosts& model) {
  StageBytes& bytes = costs.bytes;
  for (const Parameter& parameter : parameters) {
    const std::int64_t all = parameter.shape.numel();
    const auto& [stored, pruned] = std::tie(model.settings.stored, model.settings.pruned);
    const std::int64_t count = stored ? stored(parameter, pruned) : all;
    Shape shape = parameter.shape;
    if (count != all) shape = shape.rank() >= 2 ? Shape{1, count} : Shape{count};
    if (count != all) bytes.pruned += count;
    costs.parameters.add(parameter.name, shape, parameter.init, parameter.kind);
  }
  bytes.elements = parameters.numel();
  bytes.stored = costs.parameters.numel();
  const DevicePtr device = blank_device();
  const Tensor weights = empty({bytes.stored}, model.settings.dtype, device);
  const auto optimizer = model.training.optimizer(costs.parameters, weights);
  bytes.optimizer = device->meter().live(Category::optimizer);
}

/// A text that two layers share if they cost the same for the same input.
std::string description(const LayerSpec& layer) {
  ParameterList list;
  layer.build(list);
  std::string words = text(layer.flops);
  for (const Parameter& parameter : list) words += text(' ', parameter.shape);
  return words;
}

/// A text that two stages share if they cost the same: settings, place, input and layers.
std::string description(const Training& training, int stage, const CostSettings& settings,
                        const std::vector<std::string>& layers, const Shape& example) {
  const int first = training.cuts[stage], last = training.cuts[stage + 1];
  std::string words =
      text(name_of(settings.dtype), ' ', settings.examples, ' ', settings.recompute_layers, ' ',
           stage == 0, ' ', stage == training.stages() - 1, ' ', training.shared.stages.size(), ' ',
           output_shape(training.model, 0, first, example));
  for (int layer = first; layer < last; ++layer) words += text("; ", layers[layer]);
  return words;
}

}  // namespace

ModelCosts model_costs(const PlannedModel& model, int stages, const CostSettings& settings,
                       KnownStages* known) {
  ModelCosts costs{Training(model.layers, stages, settings.cuts), settings, {}};
  Training& training = costs.training;
  training.dtype = settings.dtype;
  training.recompute_layers = settings.recompute_layers;
  if (model.optimizer) training.optimizer = model.optimizer;
  std::vector<std::int64_t> example = model.input;
  example.insert(example.begin(), settings.examples);
  KnownStages own;
  if (!known) known = &own;
  std::vector<std::string> layers;
  for (const LayerSpec& layer : training.model) layers.push_back(description(layer));
  for (int stage = 0; stage < training.stages(); ++stage) {
    const int first = training.cuts[stage], last = training.cuts[stage + 1];
    const std::string key = description(training, stage, settings, layers, Shape(example));
    if (!known->contains(key)) (*known)[key] = blank_run(training, stage, model, settings);
    StageCosts found = known->at(key);
    add_state(found, Stage(training.model, first, last, training.shared.parameters).parameters(),
              costs);
    costs.stages.push_back(std::move(found));
  }
  if (training.shared.parameters.size() > 0)
    add_state(costs.stages.emplace_back(), training.shared.parameters, costs);
  return costs;
}

std::int64_t sent_sum_bytes(const StageCosts& stage, const CodecSpec& codec) {
  if (is_local(codec)) return encoded_bytes(codec, stage.bytes.stored, 4);
  const Factoring factors = factoring(stage.parameters, codec.rank);
  return 4 * (factors.first + (codec.kind().sums > 1 ? factors.second : 0));
}

}  // namespace plangrad::parallel
