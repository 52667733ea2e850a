// A model outside of nn/models: its shapes, its cuts, and a run in stages.
// Not here: the model (model.cpp). Chapter 14.
#include "autograd/cpu/cpu_backend.h"
#include "tests/adding/added.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/figures.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// Four images of noise; those of odd classes have a bright upper half.
struct Images : Batches {
  Shape shape(int) const override { return {4, 1, 28, 28}; }
  Tensor inputs(int micro, const DevicePtr& device) override {
    Tensor x = empty(shape(micro), DType::f32, device);
    x.backend().fill_uniform(RandomKey(3, text("image ", micro)), 0, 0.2, x);
    for (int i = 1; i < 4; i += 2) x.backend().fill(1, x.window(i * 28 * 28, {14 * 28}));
    return x;
  }
  Tensor targets(int, const DevicePtr& device) override {
    return from_host(std::vector<std::int32_t>{0, 1, 0, 1}, {4}, device);
  }
};

}  // namespace

TEST_CASE("adding a model: a stage makes the shape that its layers tell", "[adding]") {
  const DevicePtr device = cpu_device();
  const Model model = lenet();
  Images images;
  for (int cut = 1; cut <= 5; ++cut) {
    // [snippet stage]
    Stage stage(model, 0, cut);
    Tensor weights = empty({stage.parameters().numel()}, DType::f32, device);
    initialize(stage.parameters(), weights, /*seed*/ 1);
    stage.bind(weights);
    const Tensor y = stage.forward(images.inputs(0, device), {});
    // [end snippet]
    CHECK(y.shape() == output_shape(model, 0, cut, images.shape(0)));
  }
  CHECK(whole_parameters(model).numel() == 61706);  // as LeCun's with full connections
}

TEST_CASE("adding a model: five stages learn, with the bits of one rank", "[adding]") {
  const Layout layout{.stages = 5, .microbatches = 2, .steps = 6, .clip = true};
  Training training(lenet(), layout.stages);
  training.learning_rate = {0.003, 0.003, 0, 6};
  Images images;
  const Outcome pipeline = run_by_engine(training, plans_of("1f1b", layout), images);
  const Outcome one = run_on_one_rank(training, plans_of("data", layout), images, cpu_device());
  CHECK(pipeline.losses == one.losses);
  CHECK(pipeline.losses.at(11) < 0.5 * pipeline.losses.at(0));
}

TEST_CASE("adding a model: a layer that tells no shape", "[adding]") {
  Model model = lenet();
  model[1].output = nullptr;
  const std::string said = error_of([&] { output_shape(model, 0, 3, Images().shape(0)); });
  check_printed("added_no_shape", text("error: ", said, '\n'));
}
