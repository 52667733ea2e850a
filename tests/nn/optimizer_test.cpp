// Optimizers and schedules against the rules written out by hand.
#include "nn/optimizers/optimizer.h"

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"

using namespace plangrad::nn;

namespace {

/// A matrix, a bias and a running statistic.
ParameterList three_kinds() {
  ParameterList list;
  list.add("weight", {2, 1}, Init::constant(0));
  list.add("bias", {1}, Init::constant(0));
  list.add("mean", {1}, Init::constant(0), ParameterKind::statistic);
  return list;
}

const std::vector<double> start{1, -2, 3, 4}, slope{0.5, -1, 2, 10};

}  // namespace

TEST_CASE("AdamW follows the paper, decays matrices only, and statistics follow their mean") {
  DevicePtr device = cpu_device();
  ParameterList list = three_kinds();
  Tensor weights = from_host(start, {4}, device), gradients = from_host(slope, {4}, device);
  auto optimizer = make_adamw(list, weights, 0.1, 0.9, 0.95, 1e-8);
  std::vector<double> w = start, m(4), v(4);
  double average = 0.5, clip = 0.25, rate = 0.01, statistic = start[3];
  for (int t = 1; t <= 3; ++t) {
    optimizer->step({rate, average, clip, t}, weights, gradients);
    for (int i = 0; i < 3; ++i) {
      double g = slope[i] * average * clip;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      double decay = i < 2 ? 0.1 : 0;
      w[i] -= rate *
              (m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-8) +
               decay * w[i]);
    }
    statistic = 0.9 * statistic + 0.1 * average * slope[3];
  }
  std::vector<double> got = to_host(weights);
  for (int i = 0; i < 3; ++i) CHECK(got[i] == Approx(w[i]).epsilon(1e-12));
  CHECK(got[3] == Approx(statistic).epsilon(1e-12));
}

TEST_CASE("SGD with momentum and decay follows PyTorch's rule") {
  DevicePtr device = cpu_device();
  ParameterList list = three_kinds();
  Tensor weights = from_host(start, {4}, device), gradients = from_host(slope, {4}, device);
  auto optimizer = make_sgd(list, weights, 0.9, 0.01);
  double w = start[0], m = 0;
  for (int t = 1; t <= 3; ++t) {
    optimizer->step({0.1, 1, 1, t}, weights, gradients);
    m = 0.9 * m + slope[0] + 0.01 * w;
    w -= 0.1 * m;
  }
  CHECK(to_host(weights)[0] == Approx(w).epsilon(1e-12));
}

TEST_CASE("bf16 weights move by steps that are too small for bf16") {
  DevicePtr device = cpu_device();
  ParameterList list;
  list.add("weight", {1, 1}, Init::constant(0));
  Tensor weights = full({1}, 1, DType::bf16, device), gradients = full({1}, 1, DType::f32, device);
  auto optimizer = make_sgd(list, weights, 0, 0);
  // Below 1, neighbours in bf16 are 1/256 apart: a step of 1/1024 alone would round away.
  for (int t = 1; t <= 8; ++t) optimizer->step({1.0 / 1024, 1, 1, t}, weights, gradients);
  CHECK(to_host(weights)[0] == 1 - 8.0 / 1024);
  CHECK(to_host(optimizer->state().back().second)[0] == 1 - 8.0 / 1024);
}

TEST_CASE("the learning rate warms up, then follows half a cosine") {
  LearningRate rate{1.0, 0.1, 4, 12};
  CHECK(rate.at(0) == Approx(0.2));
  CHECK(rate.at(3) == Approx(0.8));
  CHECK(rate.at(4) == Approx(1.0));
  CHECK(rate.at(8) == Approx(0.55));
  CHECK(rate.at(12) == Approx(0.1));
  CHECK(rate.at(100) == Approx(0.1));
}

TEST_CASE("clipping brings the norm of all weights' gradients down to the limit") {
  DevicePtr device = cpu_device();
  Tensor gradients = from_host(std::vector<double>{3, 4, 12, 1e6}, {4}, device);
  double norm = gradient_norm(three_kinds(), gradients);  // the statistic's 1e6 does not count
  CHECK(norm == Approx(13));
  CHECK(norm * clip_scale(norm, 1) == Approx(1).epsilon(1e-6));
  CHECK(clip_scale(norm, 20) == 1);
  CHECK(clip_scale(norm, 0) == 1);
}

TEST_CASE("optimizers on parts of a list do together what one does on the whole") {
  DevicePtr device = cpu_device();
  const ParameterList list = three_kinds();
  for (bool sgd : {false, true})
    for (DType dtype : {DType::f64, DType::bf16})
      for (std::int64_t cut : {0, 1, 2, 3, 4}) {  // 1: through the matrix
        Tensor start_values = from_host(start, {4}, device);
        Tensor whole = empty({4}, dtype, device), parts = empty({4}, dtype, device);
        device->backend().copy(start_values, whole);
        device->backend().copy(start_values, parts);
        Tensor gradients = empty({4}, gradient_dtype(dtype), device);
        device->backend().copy(from_host(slope, {4}, device), gradients);
        auto steps = [&](const ParameterList& some, std::int64_t first, const Tensor& weights) {
          Tensor own = weights.window(first, {some.numel()});
          auto optimizer = sgd ? make_sgd(some, own, 0.9, 0.1) : make_adamw(some, own);
          CHECK(optimizer->state()[0].second.numel() == some.numel());
          for (int t = 1; t <= 3; ++t)
            optimizer->step({0.1, 1, 1, t}, own, gradients.window(first, {some.numel()}));
        };
        steps(list, 0, whole);
        steps(list.part(0, cut), 0, parts);
        steps(list.part(cut, 4), cut, parts);
        CHECK(to_host(parts) == to_host(whole));
        CHECK(to_host(parts) != start);
      }
}
