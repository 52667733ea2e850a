// Split backwards: I then W have the bits of B, in stages and in runs; what is kept between the
// two parts, to the byte, and nothing after them.
// Not here: single operations (tests/op_checks.h), pruned stages (tests/sparse). Chapter 06.
#include <fmt/format.h>

#include "autograd/cpu/cpu_backend.h"
#include "nn/models/resnet.h"
#include "tests/catch.h"
#include "tests/figures.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

using Values = std::vector<double>;

Training gpt_training(int stages, bool tied = false, double dropout = 0) {
  Training training(gpt(small_gpt(tied, dropout)), stages);
  training.clip = 0;
  return training;
}
Training resnet_training(int stages) {
  Training training(resnet18({.channels = 1, .size = 8, .classes = 5, .width = 2}), stages);
  training.clip = 0;
  return training;
}

/// One stage alone, with three microbatches under way.
class StageAlone {
 public:
  StageAlone(const Training& training, int stage, Batches& batches)
      : last_(stage == training.stages() - 1), runner_(training, stage, device_) {
    set_compute_threads(1);
    weights_ = values_of(runner_.parameters(), training);
    shared_ = values_of(runner_.shared_parameters(), training);
    const Shape shape = output_shape(training.model, 0, training.cuts[stage], batches.shape(0));
    for (int micro = 0; micro < 3; ++micro) {
      StageRunner::Inputs inputs;
      inputs.weights = weights_;
      inputs.shared = shared_;
      inputs.sink = [this, micro](const Parameter& p, const Tensor& dx) {
        add(sums[micro][p.name], to_host(dx));
      };
      if (stage == 0)
        inputs.x = batches.inputs(micro, device_);
      else
        inputs.x = random(shape, text("x", micro), training.dtype);
      if (last_) inputs.targets = batches.targets(micro, device_);
      const Tensor y = runner_.forward(micro, inputs);
      if (!last_) dy_.push_back(random(y.shape(), text("dy", micro), training.dtype));
    }
  }

  void backward(int micro, Value part) {
    const Tensor dy =
        last_ || part == Value::weight_part ? Tensor() : std::exchange(dy_[micro], {});
    const Tensor dx = runner_.backward(micro, dy, part, weights_, shared_);
    if (dx.defined()) input_gradients[micro] = to_host(dx);
  }

  const MemoryMeter& meter() const { return device_->meter(); }
  std::int64_t weight_bytes() const {
    return weights_.bytes() + (shared_.defined() ? shared_.bytes() : 0);
  }

  std::map<int, Values> input_gradients;
  std::map<int, std::map<std::string, Values>> sums;  ///< gradients of weights

 private:
  static void add(Values& sum, const Values& dx) {
    sum.resize(dx.size());
    for (std::size_t i = 0; i < dx.size(); ++i) sum[i] += dx[i];
  }
  Tensor values_of(const ParameterList& list, const Training& training) {
    if (list.size() == 0) return {};
    const CategoryScope category(*device_, Category::weights);
    Tensor weights = empty({list.numel()}, training.dtype, device_);
    initialize(list, weights, training.seed);
    return weights;
  }
  Tensor random(const Shape& shape, const std::string& name, DType dtype) {
    Tensor x = empty(shape, dtype, device_);
    x.backend().fill_normal(RandomKey(3, name), 0, 1, x);
    return x;
  }

  DevicePtr device_ = cpu_device();
  bool last_;
  StageRunner runner_;
  Tensor weights_, shared_;
  std::vector<Tensor> dy_;
};

/// Compares backwards in two parts, in another order of microbatches, with whole ones.
void check_parts(const Training& training, Batches& batches) {
  for (int stage = 0; stage < training.stages(); ++stage) {
    StageAlone whole(training, stage, batches), split(training, stage, batches);
    for (int micro : {0, 1, 2}) whole.backward(micro, Value::none);
    for (int micro : {1, 0}) split.backward(micro, Value::input_part);
    CHECK(split.sums.empty());
    split.backward(0, Value::weight_part);
    split.backward(2, Value::input_part);
    for (int micro : {2, 1}) split.backward(micro, Value::weight_part);
    INFO("stage " << stage);
    CHECK(split.input_gradients == whole.input_gradients);
    CHECK(split.sums == whole.sums);
    CHECK(split.meter().live() == split.weight_bytes());
    CHECK(whole.meter().live() == whole.weight_bytes());
  }
}

}  // namespace

TEST_CASE("weight part: I, then W, has the bits of B in every stage", "[weight_part]") {
  SECTION("GPT, with dropout and a tied table") {
    Training training = gpt_training(3, true, 0.2);
    SmallBatches batches(small_gpt());
    training.dtype = GENERATE(DType::f32, DType::bf16);
    training.recompute_layers = GENERATE(false, true);
    check_parts(training, batches);
  }
  SECTION("ResNet") {
    Training training = resnet_training(2);
    SmallImages batches;
    training.recompute_layers = GENERATE(false, true);
    check_parts(training, batches);
  }
}

TEST_CASE("weight part: what a block keeps between the parts, to the byte", "[weight_part]") {
  Training training = gpt_training(3);
  training.dtype = GENERATE(DType::f32, DType::bf16);
  training.recompute_layers = GENERATE(false, true);
  SmallBatches batches(small_gpt());
  StageAlone stage(training, 1, batches);  // two blocks
  for (int micro : {0, 1, 2}) stage.backward(micro, Value::input_part);
  // For each token and block: the inputs of four linear layers, 1 + 1 + 1 + 4 rows of C, and the
  // gradients of their outputs, 3 + 1 + 4 + 1. Gradients that come with those: of two norms' gains
  // and biases, and of the bias before the GELU.
  const std::int64_t c = 16, tokens = 2 * 8, blocks = training.cuts[2] - training.cuts[1];
  const std::int64_t kept = blocks * (16 * tokens * c * size_of(training.dtype) + 8 * c * 4);
  CHECK(stage.meter().live(Category::activations) == 3 * kept);
  CHECK(stage.meter().live() == stage.weight_bytes() + 3 * kept);
  stage.backward(0, Value::weight_part);
  CHECK(stage.meter().live() == stage.weight_bytes() + 2 * kept);
}

namespace {

/// Counts the multiply-adds of dense matrix products.
class CountingBackend : public CpuBackend {
 public:
  std::int64_t multiply_adds = 0;

  void gemm(Gemm how, In a, In b, In bias, Out c) override {
    multiply_adds += c.numel() * a.size(how.transpose_a ? 1 : 2);
    CpuBackend::gemm(how, a, b, bias, c);
  }
};

}  // namespace

TEST_CASE("weight part: what chapter 06 says of a block's parts", "[weight_part]") {
  const GptConfig config{1, 2, 32, 16, 19, 0, false};
  const Training training(gpt(config), 3);  // the middle stage is a block
  const auto backend = std::make_shared<CountingBackend>();
  const auto device = std::make_shared<Device>(backend);
  StageRunner runner(training, 1, device);
  const Shape shape{2, config.context, config.width};
  auto zeros_like_weights = [&](Category category) {
    const CategoryScope scope(*device, category);
    return zeros({runner.parameters().numel()}, DType::f32, device);
  };
  const Tensor sum = zeros_like_weights(Category::gradients);
  StageRunner::Inputs inputs;
  inputs.weights = zeros_like_weights(Category::weights);
  inputs.sink = add_to_flat(sum);
  auto forward = [&] {
    inputs.x = zeros(shape, DType::f32, device);
    runner.forward(0, inputs);
    inputs.x = {};
  };
  auto backward = [&](Value part) {
    const bool needs_dy = part != Value::weight_part;
    runner.backward(0, needs_dy ? zeros(shape, DType::f32, device) : Tensor(), part,
                    inputs.weights);
  };
  std::string table =
      "| computation | multiply-adds of linear layers, per token | numbers kept afterwards, per "
      "token |\n| --- | --- | --- |\n";
  auto add_row = [&](const char* name, const std::function<void()>& work) {
    const auto tokens = static_cast<double>(shape[0] * shape[1]), c = double(config.width);
    backend->multiply_adds = 0;
    work();
    const auto bytes = static_cast<double>(device->meter().live() - 2 * sum.bytes());
    table += fmt::format("| {} | {:.0f} C² | {:.1f} C |\n", name,
                         static_cast<double>(backend->multiply_adds) / tokens / c / c,
                         bytes / 4 / tokens / c);
  };
  add_row("`F`", forward);
  add_row("`I`", [&] { backward(Value::input_part); });
  add_row("`W`", [&] { backward(Value::weight_part); });
  forward();
  add_row("`B`", [&] { backward(Value::none); });
  check_figure("two_parts", table);
}

TEST_CASE("weight part: a zero-bubble plan trains like 1F1B, bit for bit", "[weight_part]") {
  const std::vector<VerifiedPlan> split{verify(parse(plan_text("zero_bubble")))};
  const auto whole = plans_of("1f1b", {.stages = 2, .microbatches = 3, .steps = 2});
  auto check = [&](const Training& training, Batches& batches) {
    const Outcome one = run_by_engine(training, split, batches);
    const Outcome other = run_by_engine(training, whole, batches);
    check_same_bits(one, other);
    for (int rank : {0, 1}) CHECK(one.live[rank] == other.live[rank]);
  };
  SECTION("GPT") {
    Training training = gpt_training(2, false, 0.2);
    training.dtype = GENERATE(DType::f32, DType::bf16);
    SmallBatches batches(small_gpt());
    check(training, batches);
  }
  SECTION("ResNet, whose running statistics are observed in the first part") {
    SmallImages batches;
    check(resnet_training(2), batches);
  }
}

TEST_CASE("weight part: where it runs at once, a run takes no more memory", "[weight_part]") {
  const Plan whole = make_plan("1f1b", {.stages = 2, .microbatches = 3, .steps = 2});
  Plan split = whole;
  for (Row& row : split.rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!goes_back(row[i])) continue;
      row[i].what = Value::input_part;
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(i) + 1, row[i]);
      row[++i].what = Value::weight_part;
    }
  const Training training = gpt_training(2);
  SmallBatches batches(small_gpt());
  const Outcome one = run_by_engine(training, {verify(split)}, batches);
  const Outcome other = run_by_engine(training, {verify(whole)}, batches);
  CHECK(one.weights == other.weights);
  // The gradients of at most five norms' gains and biases, and of two blocks' biases, wait.
  const std::int64_t vectors = (5 * 2 + 2 * 4) * 16 * 4;
  for (int rank : {0, 1}) {
    auto peak = [&](const Outcome& outcome, Category c) { return outcome.peak[rank].at(c); };
    CHECK(peak(one, Category::activations) <= peak(other, Category::activations) + vectors);
    CHECK(peak(one, Category::workspace) <= peak(other, Category::workspace));
    CHECK(peak(one, Category::gradients) == peak(other, Category::gradients));
  }
}
