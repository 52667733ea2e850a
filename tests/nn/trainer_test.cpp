// Training on one rank: cuts, microbatches and recomputation change nothing but memory; memory is
// what chapter 03 predicts; a loss that is not finite stops the run in time.
#include "nn/trainer.h"

#include <cmath>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/gpt.h"
#include "tests/catch.h"

using namespace paragrad::nn;

namespace {

const GptConfig config{3, 2, 16, 8, 19, 0, true};
constexpr std::int64_t batch = 4;

Tensor ids(const std::string& name, const DevicePtr& device) {
  std::vector<std::int32_t> values(batch * config.context);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<std::int32_t>(uniform_integer(RandomKey(7, name), i, config.vocabulary));
  return from_host(values, {batch, config.context}, device);
}

struct Result {
  std::vector<double> losses, weights;
  std::int64_t activations;
};

/// Five updates on the same batch.
Result train(TrainerSettings settings, GptConfig model = config) {
  DevicePtr device = cpu_device();
  settings.learning_rate = {1e-2, 1e-3, 2, 5};
  Trainer trainer(gpt(model), settings, device);
  Tensor inputs = ids("inputs", device), targets = ids("targets", device);
  Result result;
  for (int i = 0; i < 5; ++i) result.losses.push_back(trainer.step(inputs, targets).loss);
  result.weights = to_host(trainer.weights());
  result.activations = device->meter().peak(Category::activations);
  return result;
}

}  // namespace

TEST_CASE("training lowers the loss, the same way each time") {
  Result one = train({}), two = train({});
  CHECK(one.losses[4] < one.losses[0] - 0.2);
  CHECK(one.losses == two.losses);
  CHECK(one.weights == two.weights);
}

TEST_CASE("recomputation changes no bit, with dropout, and holds fewer activations") {
  GptConfig model = config;
  model.dropout = 0.3;
  TrainerSettings plain, again;
  plain.microbatches = again.microbatches = 2;
  again.recompute = true;
  Result a = train(plain, model), b = train(again, model);
  CHECK(a.losses == b.losses);
  CHECK(a.weights == b.weights);
  CHECK(b.activations < a.activations / 2);
  model.dropout = 0;
  CHECK(train(plain, model).losses != a.losses);
}

TEST_CASE("microbatches add up to the batch") {
  TrainerSettings whole, cut;
  cut.microbatches = 4;
  Result a = train(whole), b = train(cut);
  for (int i = 0; i < 5; ++i) CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(1e-4));
  CHECK(b.activations < a.activations / 2);
  cut.microbatches = 3;
  CHECK_THROWS_WITH(train(cut), Contains("a batch of 4 does not divide into 3 microbatches"));
}

TEST_CASE("a model that is cut into stages gives the bits of the whole one") {
  DevicePtr device = cpu_device();
  GptConfig model = config;
  model.dropout = 0.2;
  model.tied = false;
  Model layers = gpt(model);
  Pass pass{true, 3, 11, false};
  Tensor inputs = ids("inputs", device), targets = ids("targets", device);

  auto run = [&](std::vector<int> cuts) {
    std::vector<double> values;  // loss, then all gradients in order
    std::vector<std::unique_ptr<Stage>> stages;
    std::vector<Tensor> gradients, entries, outputs;
    Tensor x = inputs, dx;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      stages.push_back(std::make_unique<Stage>(layers, cuts[s], cuts[s + 1]));
      std::int64_t n = stages[s]->parameters().numel();
      Tensor weights = empty({n}, DType::f32, device);
      gradients.push_back(zeros({n}, DType::f32, device));
      stages[s]->initialize(weights, 5);
      stages[s]->bind(weights, add_to_flat(gradients[s]));
      if (s > 0) x = variable(x);
      entries.push_back(x);
      x = stages[s]->forward(x, pass);
      outputs.push_back(x);
    }
    Tensor loss = cross_entropy(x, targets);
    values.push_back(item(loss));
    for (std::size_t s = stages.size(); s-- > 0;) {
      backward(s + 1 == stages.size() ? loss : outputs[s], dx);
      if (s > 0) dx = gradient(entries[s]);
    }
    for (const Tensor& g : gradients)
      for (double v : to_host(g)) values.push_back(v);
    return values;
  };
  std::vector<double> whole = run({0, 5});
  CHECK(run({0, 2, 5}) == whole);
  CHECK(run({0, 1, 2, 3, 4, 5}) == whole);
  CHECK_THROWS_WITH(run({0, 6}), Contains("layers [0,6) of a model with 5 layers"));
}

TEST_CASE("memory is what the shapes say, to the byte") {
  auto [dtype, weight_bytes, state_bytes] =
      GENERATE(std::tuple{DType::f32, 4, 8}, std::tuple{DType::bf16, 2, 12});
  DevicePtr device = cpu_device();
  TrainerSettings settings;
  settings.dtype = dtype;
  Trainer trainer(gpt(config), settings, device);
  Tensor inputs = ids("inputs", device), targets = ids("targets", device);
  trainer.step(inputs, targets);
  const MemoryMeter& meter = device->meter();

  // [snippet parameters]
  // Weights and biases of a block: 12 C^2 + 13 C. Tables: V C and T C. Final norm: 2 C.
  std::int64_t c = config.width, t = config.context, v = config.vocabulary, layers = config.layers;
  std::int64_t parameters = layers * (12 * c * c + 13 * c) + v * c + t * c + 2 * c;
  // [end snippet]
  CHECK(trainer.parameters().numel() == parameters);
  CHECK(meter.peak(Category::weights) == weight_bytes * parameters);
  CHECK(meter.peak(Category::gradients) == 4 * parameters);
  CHECK(meter.peak(Category::optimizer) == state_bytes * parameters);

  // [snippet activations]
  // What the forward pass keeps, per token. Each block: norm, q k v, attention, first sum, norm,
  // before and after the GELU, second sum: 1 + 3 + 1 + 1 + 1 + 4 + 4 + 1 = 16 rows of C; mean and
  // deviation of two norms, and a normalizer for each head. Around them: the embeddings' sum, the
  // last norm, the logits.
  std::int64_t n = batch * t;
  std::int64_t rows = n * c * (16 * layers + 2) + n * v;
  std::int64_t statistics = n * (4 * layers + 2) + n * config.heads * layers;
  // The loss of each token and its normalizer, before their mean; the ids of inputs and targets.
  std::int64_t loss = 2 * n, tokens = 2 * n;
  std::int64_t bytes = size_of(dtype) * rows + 4 * (statistics + loss + tokens);
  // [end snippet]
  std::int64_t scalars = 4 * 2;  // the sum and the mean of the loss
  CHECK(meter.peak(Category::activations) == bytes + scalars);
}

TEST_CASE("a loss that is not finite stops training before a weight changes") {
  DevicePtr device = cpu_device();
  Trainer trainer(gpt(config), {}, device);
  Tensor first = trainer.weights().window(0, {1});
  device->backend().fill(std::nan(""), first);
  std::vector<double> before = to_host(trainer.weights());
  CHECK_THROWS_WITH(trainer.step(ids("inputs", device), ids("targets", device)),
                    Contains("step 1: the loss is") && Contains("--learning-rate"));
  std::vector<double> after = to_host(trainer.weights());
  CHECK(std::equal(before.begin() + 1, before.end(), after.begin() + 1));
  CHECK(trainer.steps() == 0);
}

TEST_CASE("the first values of a parameter depend on seed and name, not on where it stands") {
  DevicePtr device = cpu_device();
  Stage whole(gpt(config), 0, 5), last(gpt(config), 3, 5);
  auto values = [&](const Stage& stage, const std::string& name, std::uint64_t seed) {
    Tensor weights = empty({stage.parameters().numel()}, DType::f32, device);
    stage.initialize(weights, seed);
    for (const Parameter& p : stage.parameters())
      if (p.name == name) return to_host(weights.window(p.offset, p.shape));
    return std::vector<double>();
  };
  std::string name = "h.2.mlp.c_fc.weight";
  CHECK(values(whole, name, 1).size() == 4 * 16 * 16);
  CHECK(values(whole, name, 1) == values(last, name, 1));
  CHECK(values(whole, name, 1) != values(whole, name, 2));
}
