// The meter of the blank device is read where the engine's memory changes: a forward, a backward,
// and a backward in two parts. Of stages that cost the same one is run. Chapters 03 and 09.
#include "parallel/planner/layer_costs.h"

#include "autograd/blank/blank_device.h"
#include "parallel/codecs/low_rank.h"
#include "parallel/engine/stage_runner.h"

namespace plangrad::parallel {
namespace {

Shape batch_shape(std::vector<std::int64_t> example, int examples) {
  example.insert(example.begin(), examples);
  return Shape(example);
}

/// A stage on a device, and the bytes that it has there beside its weights and sums.
class StageRun {
 public:
  StageRun(const ModelCosts& costs, int stage, const PlannedModel& model, const DevicePtr& device)
      : training_(costs.training),
        stage_(stage),
        device_(device),
        runner_(training_, stage, device),
        x_(output_shape(training_.model, 0, training_.cuts[stage],
                        batch_shape(model.input, costs.settings.examples))),
        targets_(batch_shape(model.target, costs.settings.examples)),
        has_ids_(stage == 0 && model.vocabulary > 0) {
    inputs_.weights = flat(runner_.parameters(), training_.dtype, Category::weights);
    inputs_.shared = flat(runner_.shared_parameters(), training_.dtype, Category::weights);
    inputs_.sink = {[this](const Parameter& p, const Tensor&) { sum_of(p); },
                    [this](const Parameter& p) { return place(p); }};
    before_ = meter().live();
  }

  /// Bytes beside weights and whole sums.
  std::int64_t now() const { return meter().live() - before_ - bytes_of_sums(); }
  std::int64_t most() const { return meter().peak() - before_ - bytes_of_sums(); }
  /// Lets the next backward begin its sums anew.
  void drop_sums() { sums_ = shared_sums_ = {}; }

  /// Returns the bytes of the output; for the last stage, of the loss.
  std::int64_t forward(int micro) {
    inputs_.x = zeros(x_, has_ids_ ? DType::i32 : training_.dtype, device_);
    if (is_last()) inputs_.targets = zeros(targets_, DType::i32, device_);
    input_bytes = inputs_.x.bytes();
    begin();
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
  const Shape x_, targets_;
  const bool has_ids_;
  StageRunner::Inputs inputs_;
  Tensor sums_, shared_sums_;
  Shape output_;
  std::int64_t before_ = 0;
};

}  // namespace

StageCosts run_stage(const ModelCosts& all, int stage, const PlannedModel& model,
                     const DevicePtr& device) {
  StageRun run(all, stage, model, device);
  StageCosts costs;
  StageBytes& bytes = costs.bytes;
  StageWork& work = costs.work;
  bytes.output = run.forward(0);
  bytes.input = run.input_bytes;
  bytes.kept = run.now();
  bytes.forward = run.most() - bytes.kept;
  work.forward = take_kernels(*device);
  run.backward(0, Value::none);
  bytes.opening = run.most() - bytes.kept;
  work.backward = take_kernels(*device);
  run.forward(1);
  run.backward(1, Value::none);
  bytes.backward = run.most() - bytes.kept;

  for (std::int64_t StageBytes::*part : {&StageBytes::opening_part, &StageBytes::weight_part}) {
    if (part == &StageBytes::opening_part) run.drop_sums();
    run.forward(2);
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

/// The state of a stage, as it is stored.
static void add_state(StageCosts& costs, const ParameterList& parameters, const ModelCosts& model) {
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
static std::string description(const LayerSpec& layer) {
  ParameterList list;
  layer.build(list);
  std::string words = text(layer.flops);
  for (const Parameter& parameter : list) words += text(' ', parameter.shape);
  return words;
}

/// A text that two stages share if they cost the same: settings, place, input and layers.
static std::string description(const Training& training, int stage, const CostSettings& settings,
                               const std::vector<std::string>& layers, const Shape& example) {
  const int first = training.cuts[stage], last = training.cuts[stage + 1];
  std::string words =
      text(name_of(settings.dtype), ' ', settings.examples, ' ', settings.recompute_layers, ' ',
           stage == 0, ' ', stage == training.stages() - 1, ' ', training.shared.stages.size(), ' ',
           output_shape(training.model, 0, first, example));
  for (int layer = first; layer < last; ++layer) words += text("; ", layers[layer]);
  return words;
}

ModelCosts model_costs(const PlannedModel& model, int stages, const CostSettings& settings,
                       KnownStages* known) {
  ModelCosts costs{Training(model.layers, stages, settings.cuts), settings, {}};
  Training& training = costs.training;
  training.dtype = settings.dtype;
  training.recompute_layers = settings.recompute_layers;
  if (model.optimizer) training.optimizer = model.optimizer;
  const Shape example = batch_shape(model.input, settings.examples);
  KnownStages own;
  if (!known) known = &own;
  std::vector<std::string> layers;
  for (const LayerSpec& layer : training.model) layers.push_back(description(layer));
  for (int stage = 0; stage < training.stages(); ++stage) {
    const int first = training.cuts[stage], last = training.cuts[stage + 1];
    const std::string key = description(training, stage, settings, layers, example);
    if (!known->contains(key))
      (*known)[key] = run_stage(costs, stage, model, blank_device(settings.like));
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
