// The engine on one rank: a plain loop's bits; cuts, microbatches and recomputation change nothing
// but memory; memory is what chapter 03 predicts; what is not finite stops the run in time.
#include <limits>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

using Values = std::vector<double>;

Training training_of(const GptConfig& config, int stages = 1) {
  Training training(gpt(config), stages);
  training.learning_rate = {1e-2, 1e-3, 2, 5};
  return training;
}

/// Five updates on the same batch, by a schedule whose stages all lie on the one rank.
Outcome train(const Training& training, const GptConfig& config, int microbatches = 1,
              const std::string& schedule = "data", bool recompute = false) {
  SameBatch batch(config, microbatches);
  bool tied = training.shared.parameters.size() > 0;
  Layout layout{training.stages(), 1, microbatches, 5, 0, recompute, training.clip > 0, tied};
  return run_on_one_rank(training, plans_of(schedule, layout), batch, cpu_device());
}

/// The mean loss of each step.
Values losses_of(const Outcome& outcome, int microbatches = 1) {
  Values losses(outcome.losses.size() / microbatches);
  for (auto [micro, loss] : outcome.losses) losses[micro / microbatches] += loss / microbatches;
  return losses;
}

/// The weights of all stages in a row: those of the whole model, if no stages share any.
Values weights_of(const Outcome& outcome) {
  Values all;
  for (const auto& [place, weights] : outcome.weights)
    all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

/// Passes its input on; from microbatch `first` on, the value or the gradient times `factor`.
class Faulty : public Layer {
 public:
  Faulty(int first, double of_value, double of_gradient)
      : first_(first), of_value_(of_value), of_gradient_(of_gradient) {}
  Tensor forward(const Tensor& x, const Pass& pass) const override {
    if (pass.microbatch < first_) return x;
    auto gradient = [factor = of_gradient_](const Tensor& dy) {
      return std::vector<Tensor>{affine(dy, factor)};
    };
    return record(affine(x.detach(), of_value_), "faulty", {x}, gradient);
  }

 private:
  int first_;
  double of_value_, of_gradient_;
};

/// A small GPT with a faulty layer before its head.
Model faulty_gpt(int first, double of_value, double of_gradient) {
  Model model = gpt(small_gpt());
  auto build = [=](ParameterList&) {
    return std::make_unique<Faulty>(first, of_value, of_gradient);
  };
  model.insert(model.end() - 1, {"faulty", build});
  return model;
}

}  // namespace

TEST_CASE("one rank: the engine gives the bits of a plain loop") {
  GptConfig config = small_gpt(true, 0.2);
  Training training = training_of(config);
  training.clip = GENERATE(0.0, 0.3);
  Outcome engine = train(training, config, 2);

  DevicePtr device = cpu_device();
  SameBatch batch(config, 2);
  Stage stage(training.model, 0, config.layers + 2);
  Tensor weights = empty({stage.parameters().numel()}, training.dtype, device);
  Tensor gradients = empty(weights.shape(), gradient_dtype(training.dtype), device);
  initialize(stage.parameters(), weights, training.seed);
  stage.bind(weights, add_to_flat(gradients));
  auto optimizer = training.optimizer(stage.parameters(), weights);
  std::map<int, double> losses, norms;
  // [snippet loop]
  for (int step = 0; step < 5; ++step) {
    device->backend().fill(0, gradients);
    for (int micro = 2 * step; micro < 2 * step + 2; ++micro) {
      Tensor logits = stage.forward(batch.inputs(micro, device), {true, training.seed, micro});
      Tensor loss = cross_entropy(logits, batch.targets(micro, device));
      losses[micro] = item(loss);
      backward(loss);  // adds to the gradients
    }
    double norm = gradient_norm(stage.parameters(), gradients) / 2;
    double rate = training.learning_rate.at(step), average = 1.0 / 2;
    optimizer->step({rate, average, clip_scale(norm, training.clip), step + 1}, weights, gradients);
    norms[step + 1] = norm;
  }
  // [end snippet]
  CHECK(engine.losses == losses);
  CHECK(weights_of(engine) == to_host(weights));
  if (training.clip > 0) CHECK(engine.norms == norms);

  // [snippet row]
  std::string row = "0F0v0 0B0v0 0F1v0 0B1v0 Rnv1@0 0Sv1";
  // [end snippet]
  CHECK_THAT(print(make_plan("data", {.microbatches = 2, .clip = true})), Contains("\n" + row));
}

TEST_CASE("one rank: training lowers the loss, the same way each time") {
  Training training = training_of(small_gpt());
  Outcome one = train(training, small_gpt()), two = train(training, small_gpt());
  Values losses = losses_of(one);
  REQUIRE(losses.size() == 5);
  CHECK(losses[4] < losses[0] - 0.2);
  CHECK(one.losses == two.losses);
  CHECK(one.norms == two.norms);
  CHECK(one.weights == two.weights);
  training.seed = 1;
  CHECK(train(training, small_gpt()).weights != one.weights);
}

TEST_CASE("one rank: recomputation changes no bit, with dropout, and holds fewer activations") {
  GptConfig config = small_gpt(true, 0.3);
  Training training = training_of(config);
  Outcome plain = train(training, config, 2);
  CHECK(train(training_of(small_gpt()), config, 2).losses != plain.losses);

  Outcome whole = train(training, config, 2, "gpipe");  // two microbatches under way
  Outcome dropped = train(training, config, 2, "gpipe", true);
  training.recompute_layers = true;
  Outcome layers = train(training, config, 2);
  for (const Outcome* again : {&whole, &dropped, &layers}) {
    CHECK(again->losses == plain.losses);
    CHECK(again->weights == plain.weights);
  }
  CHECK(layers.peak_activations[0] < plain.peak_activations[0] / 2);
  CHECK(dropped.peak_activations[0] < 0.6 * whole.peak_activations[0]);
}

TEST_CASE("one rank: microbatches add up to the batch") {
  Training training = training_of(small_gpt());
  Outcome whole = train(training, small_gpt()), cut = train(training, small_gpt(), 4);
  Values a = losses_of(whole), b = losses_of(cut, 4);
  REQUIRE(b.size() == a.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-4));
  for (auto [version, norm] : whole.norms) CHECK(norm == Approx(cut.norms[version]).epsilon(1e-3));
  CHECK(cut.peak_activations[0] < whole.peak_activations[0] / 2);
}

TEST_CASE("one rank: a model that is cut into stages gives the bits of the whole one") {
  GptConfig config = small_gpt(false, 0.2);
  double clip = GENERATE(0.0, 0.3);
  Training whole = training_of(config);
  whole.clip = clip;
  Outcome expected = train(whole, config, 2);
  CHECK(expected.norms.empty() == (clip == 0));
  for (int stages : {2, 3, 6}) {
    INFO(stages << " stages, clip " << clip);
    Training cut = training_of(config, stages);
    cut.clip = clip;
    for (bool on_one_rank : {true, false}) {
      Layout layout{stages, 1, 2, 5, 0, false, clip > 0, false};
      SameBatch batch(config, 2);
      Outcome outcome =
          on_one_rank ? train(cut, config, 2) : run_by_engine(cut, plans_of("1f1b", layout), batch);
      CHECK(outcome.losses == expected.losses);
      CHECK(outcome.norms == expected.norms);
      CHECK(weights_of(outcome) == weights_of(expected));
    }
  }
}

TEST_CASE("one rank: cut apart, a tied table learns from both of its ends") {
  GptConfig config = small_gpt(true, 0.2);
  Outcome whole = train(training_of(config), config);
  for (int stages : {2, 6}) {
    Outcome cut = train(training_of(config, stages), config);
    CHECK(cut.losses == whole.losses);
    CHECK(cut.norms == whole.norms);
  }
}

TEST_CASE("one rank: memory is what the shapes say, to the byte") {
  auto [dtype, weight_bytes, state_bytes] =
      GENERATE(std::tuple{DType::f32, 4, 8}, std::tuple{DType::bf16, 2, 12});
  const GptConfig config = small_gpt();
  Training training = training_of(config);
  training.dtype = dtype;
  constexpr std::int64_t rows_of_batch = 4;
  SameBatch batches(config, 1, rows_of_batch);
  DevicePtr device = cpu_device();
  bool clip = GENERATE(false, true);
  training.clip = clip;
  run_on_one_rank(training, plans_of("data", {.steps = 2, .clip = clip}), batches, device);
  const MemoryMeter& meter = device->meter();

  // [snippet parameters]
  // Weights and biases of a block: 12 C^2 + 13 C. Tables: V C and T C. Final norm: 2 C.
  std::int64_t c = config.width, t = config.context, v = config.vocabulary, layers = config.layers;
  std::int64_t parameters = layers * (12 * c * c + 13 * c) + v * c + t * c + 2 * c;
  // [end snippet]
  CHECK(training.whole.numel() == parameters);
  CHECK(meter.peak(Category::weights) == weight_bytes * parameters);
  CHECK(meter.peak(Category::gradients) == 4 * parameters);
  CHECK(meter.peak(Category::optimizer) == state_bytes * parameters);
  CHECK(meter.peak(Category::communication) == 0);

  // [snippet activations]
  // What the forward pass keeps, per token. Each block: norm, q k v, attention, first sum, norm,
  // before and after the GELU, second sum: 1 + 3 + 1 + 1 + 1 + 4 + 4 + 1 = 16 rows of C; mean and
  // deviation of two norms, and a normalizer for each head. Around them: the embeddings' sum, the
  // last norm, the logits.
  std::int64_t n = rows_of_batch * t;
  std::int64_t rows = n * c * (16 * layers + 2) + n * v;
  std::int64_t statistics = n * (4 * layers + 2) + n * config.heads * layers;
  // The loss of each token, before their mean; the ids of inputs and targets.
  std::int64_t loss = n, tokens = 2 * n;
  std::int64_t bytes = size_of(dtype) * rows + 4 * (statistics + loss + tokens);
  // [end snippet]
  std::int64_t scalars = 4 * 2;  // the sum and the mean of the loss
  CHECK(meter.peak(Category::activations) == bytes + scalars);
}

namespace {

/// Counts what the host asks of it.
class AskedBackend : public CpuBackend {
 public:
  int copies = 0, squares = 0;

  void copy_to_host(const Tensor& x, void* target) override {
    ++copies;
    CpuBackend::copy_to_host(x, target);
  }
  std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors) override {
    ++squares;
    return CpuBackend::sums_of_squares(tensors);
  }
};

}  // namespace

TEST_CASE("one rank: a step asks the device for its losses and its norm, once each") {
  const GptConfig config = small_gpt();
  const Training training = training_of(config);
  const auto plan = plans_of("data", {.microbatches = 4, .steps = 3, .clip = true}).front();
  SmallBatches batches(config);
  const auto backend = std::make_shared<AskedBackend>();
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), std::make_shared<Device>(backend), {.timeout = 20});
  CHECK(engine.run(plan, batches).losses.size() == 12);
  CHECK(backend->copies == 3);
  CHECK(backend->squares == 3);
}

TEST_CASE("one rank: what is not finite stops training before a weight changes") {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  // What the value and its gradient are multiplied by.
  auto [of_value, of_gradient] = GENERATE_COPY(
      std::pair(std::nan(""), 1.0), std::pair(1.0, infinite), std::pair(1.0, std::nan("")));
  bool clip = GENERATE(false, true);
  INFO("value times " << of_value << ", gradient times " << of_gradient
                      << (clip ? ", clipped" : ""));
  // The second microbatch of step 2 is the first at fault.
  const Model sound = faulty_gpt(99, 0, 0), faulty = faulty_gpt(3, of_value, of_gradient);
  SameBatch batch(small_gpt(), 2);
  auto run = [&](const Model& model, int steps, Transport& transport) {
    Training training(model, 1);
    training.clip = clip;
    DevicePtr device = cpu_device();
    Engine engine(training, transport, device, {});
    std::string error;
    try {
      auto plan =
          verify(make_plan("data", {.microbatches = 2, .steps = steps, .clip = training.clip > 0}));
      engine.run(plan, batch);
    } catch (const Error& e) {
      error = e.what();
    }
    WeightStore& store = engine.stores().at(0);
    return std::tuple(error, store.newest(), to_host(store.weights(store.newest())),
                      to_host(store.optimizer().state()[0].second));
  };
  ThreadsWorld world(1);
  auto [no_error, one, weights, moments] = run(sound, 1, world.transport(0));
  CHECK(no_error.empty());
  auto [error, newest, kept, kept_moments] = run(faulty, 3, world.transport(0));
  CHECK_THAT(error, Contains("step 2: the gradient's norm is") && Contains("--learning-rate") &&
                        Contains("except in cyclic-v2, a --clip") &&
                        Contains(", as that of wte.weight is not finite") && !Contains("nan"));
  bool loss_blamed = error.find("the loss is not finite either") != std::string::npos;
  CHECK(loss_blamed == std::isnan(of_value));
  CHECK(newest == one);
  CHECK(kept == weights);
  CHECK(kept_moments == moments);
}
