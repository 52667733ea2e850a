// Batch norm under delay. Running statistics are a part of a stage's version like its weights, but
// no forward in training reads them. A step moves those of the newest version by a tenth towards
// the mean of what the update's microbatches observed, each with the weights that it read.
// Not here: what one batch norm observes (tests/autograd/image_test.cpp). Chapter 08.

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/models/resnet.h"
#include "tests/catch.h"
#include "tests/parallel/support/cyclic_cases.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

using Numbers = std::map<std::string, std::vector<double>>;  // by parameter

/// a * x + b * y
void mix(double a, std::vector<double>& x, double b, const std::vector<double>& y) {
  x.resize(y.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = a * x[i] + b * y[i];
}

/// What one microbatch shows to the batch norms of the whole model, if it reads these weights.
Numbers observed(const Training& training, const Tensor& weights, int micro) {
  Stage whole(training.model, 0, static_cast<int>(training.model.size()));
  Numbers seen;
  whole.bind(weights, [&](const Parameter& p, const Tensor& dx) {
    if (p.kind == ParameterKind::statistic) seen[p.name] = to_host(dx);
  });
  SmallImages images;
  const DevicePtr device = weights.device();
  Tensor logits = whole.forward(images.inputs(micro, device), {.training = true});
  backward(cross_entropy(logits, images.targets(micro, device)));
  return seen;
}

/// s(t+1) = 0.9 s(t) + 0.1/N sum_i observed(u_i), with u_i as in the rule.
Numbers written_out(const Training& training, const std::string& rule, int steps) {
  const int n = training.stages();
  SmallImages images;
  Numbers statistics;
  std::vector<Tensor> theta;
  for (int t = 0; t < steps; ++t) {
    Layout layout{.stages = n, .microbatches = n, .steps = t};
    WholeModel model(training, layout, images);
    theta.push_back(rule == "v1" ? cyclic_v1(model, layout) : cyclic_v2(model, layout));
    Numbers mean;
    for (int i = 0; i < n; ++i) {
      auto read = [&](int j) {
        const bool fresh = rule == "v2" && i + j >= n - 1;
        return theta[fresh ? t : std::max(t - 1, 0)];
      };
      for (const auto& [name, seen] : observed(training, model.mixed(read), t * n + i))
        mix(1, mean[name], 1.0 / n, seen);
    }
    for (const auto& [name, seen] : mean) {
      if (t == 0) statistics[name].assign(seen.size(), name.ends_with("var") ? 1 : 0);
      mix(0.9, statistics[name], 0.1, seen);
    }
  }
  return statistics;
}

/// Four updates with a few sums each, in f32, of numbers near 1.
constexpr double rounding = 0x1p-20;

/// The largest difference from the statistics in the flat buffer of a stage.
double difference(const Training& training, int stage, const std::vector<double>& weights,
                  const Numbers& statistics) {
  Stage part(training.model, training.cuts[stage], training.cuts[stage + 1]);
  double largest = 0;
  for (const Parameter& p : part.parameters())
    for (std::int64_t i = 0; p.kind == ParameterKind::statistic && i < p.shape.numel(); ++i)
      largest = std::max(largest, std::abs(weights[p.offset + i] - statistics.at(p.name)[i]));
  return largest;
}

}  // namespace

TEST_CASE("cyclic schedules: weights and running statistics of batch norm by their rule",
          "[cyclic]") {
  const Model resnet = resnet18({.size = 8, .classes = 5, .width = 2});
  SmallImages images;
  for (int n : fewer<int>({3, 2, 4}, 1))
    for (const std::string rule : {"v1", "v2"})
      for (bool adamw : {false, true}) {
        const Training training = training_with_warmup(resnet, n, adamw);
        const auto weights = ruled(training, rule, images);
        const Numbers statistics = written_out(training, rule, 4);
        CHECK(statistics.size() == 40);  // 20 batch norms
        for (const auto& [name, setting] : settings()) {
          INFO(rule << ' ' << name << ", N = " << n << (adamw ? ", adamw" : ", sgd"));
          Outcome outcome = run_by_engine(training, cyclic_plans(rule, setting, n), images);
          for (const auto& [where, values] : outcome.weights) {
            CHECK(values == weights[where.second]);
            CHECK(difference(training, where.second, values, statistics) < rounding);
          }
        }
      }
}
