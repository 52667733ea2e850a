// Training in four threads at once gives each the bits that it gets alone: nothing is shared that a
// thread could change. Not here: messages between ranks (engine_test.cpp).

#include "autograd/cpu/cpu_backend.h"
#include "nn/models/resnet.h"
#include "tests/catch.h"
#include "tests/in_threads.h"
#include "tests/numbers.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

struct Values {
  std::map<int, double> losses, norms;
  Numbers weights;
  bool operator==(const Values&) const = default;
};

Values train(const Training& training, const Layout& layout, Batches& batches,
             const DevicePtr& device) {
  Outcome outcome = run_on_one_rank(training, plans_of("data", layout), batches, device);
  return {outcome.losses, outcome.norms, outcome.weights.at({0, 0})};
}

/// Three steps of a GPT with dropout, recomputation and two microbatches.
Values train_gpt(const Model& model, const GptConfig& config, const DevicePtr& device, DType dtype,
                 int rank) {
  Training training(model, 1);
  training.dtype = dtype;
  training.seed = rank;
  training.recompute_layers = rank % 2;
  SameBatch batch(config, 2);
  return train(training, {.microbatches = 2, .steps = 3, .clip = true}, batch, device);
}

/// A step of a narrow ResNet.
Values train_resnet(const Model& model, const DevicePtr& device, int rank) {
  Training training(model, 1);
  training.seed = rank;
  SmallImages images;
  return train(training, {.clip = true}, images, device);
}

}  // namespace

TEST_CASE("rank threads: four train at once as each does alone", "[threads]") {
  const GptConfig config = small_gpt(true, 0.1);
  const Model network = gpt(config);
  const Model images = resnet18({.channels = 1, .size = 8, .classes = 5, .width = 2});
  auto backend = std::make_shared<CpuBackend>();
  bool one_backend = GENERATE(false, true);
  auto device = [&] { return one_backend ? std::make_shared<Device>(backend) : cpu_device(); };
  auto run = [&](int rank) {
    set_compute_threads(1);
    std::vector<Values> runs;
    for (DType dtype : {DType::f32, DType::bf16})
      runs.push_back(train_gpt(network, config, device(), dtype, rank));
    runs.push_back(train_resnet(images, device(), rank));
    return runs;
  };
  std::vector<std::vector<Values>> alone(4), together(4);
  for (int rank = 0; rank < 4; ++rank) in_threads(1, [&](int) { alone[rank] = run(rank); });
  in_threads(4, [&](int rank) { together[rank] = run(rank); });
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank << (one_backend ? ", one backend" : ", a backend each"));
    CHECK(std::isfinite(alone[rank][0].losses.at(0)));
    bool same = together[rank] == alone[rank];
    CHECK(same);
  }
  CHECK(alone[0] != alone[1]);
}
