// See whole_model.h.
#include "tests/parallel/support/whole_model.h"

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"

namespace plangrad::tests {

WholeModel::WholeModel(const Training& training, const Layout& layout, Batches& batches)
    : training_(training),
      layout_(layout),
      batches_(batches),
      device_(cpu_device()),
      stage_(training.model, 0, static_cast<int>(training.model.size())) {
  set_compute_threads(1);
  optimizer_ = training.optimizer(stage_.parameters(), first());
}

Tensor WholeModel::first() const {
  Tensor weights = buffer();
  initialize(stage_.parameters(), weights, training_.seed);
  return weights;
}

Tensor WholeModel::gradient(const std::function<Tensor(int)>& weights, int step) {
  Tensor total = buffer();
  for (int replica = 0; replica < layout_.width; ++replica) {
    Tensor sum = buffer();
    for (int micro : layout_.micros(replica, step)) {
      stage_.bind(weights(micro % (layout_.width * layout_.microbatches)), add_to_flat(sum));
      Pass pass{.training = true, .seed = training_.seed, .microbatch = micro};
      Tensor logits = stage_.forward(batches_.inputs(micro, device_), pass);
      backward(cross_entropy(logits, batches_.targets(micro, device_)));
    }
    sum.backend().accumulate(sum, total);
  }
  return total;
}

Tensor WholeModel::gradient(const Tensor& weights, int step) {
  return gradient([&](int) { return weights; }, step);
}

Tensor WholeModel::update(const Tensor& weights, const Tensor& gradient, int version) {
  int count = layout_.width * layout_.microbatches;
  norms[version] = gradient_norm(stage_.parameters(), gradient) / count;
  Tensor after = buffer();
  after.backend().copy(weights, after);
  optimizer_->step({training_.learning_rate.at(version - 1), 1.0 / count,
                    clip_scale(norms[version], training_.clip), version},
                   after, gradient);
  return after;
}

Tensor WholeModel::mixed(const std::function<Tensor(int)>& read) {
  Tensor weights = buffer();
  for (int stage = layout_.stages - 1; stage >= 0; --stage) {
    Stage part(training_.model, training_.cuts[stage], training_.cuts[stage + 1]);
    for (const Parameter& p : part.parameters()) {
      Tensor from = read(stage).window(place(p), p.shape);
      from.backend().copy(from, weights.window(place(p), p.shape));
    }
  }
  return weights;
}

std::vector<double> WholeModel::part(const Tensor& weights, int stage) {
  Stage own(training_.model, training_.cuts.at(std::min(stage, layout_.stages - 1)),
            training_.cuts.at(std::min(stage, layout_.stages - 1) + 1),
            training_.shared.parameters);
  std::vector<double> values;
  for (const Parameter& p : stage < layout_.stages ? own.parameters() : training_.shared.parameters)
    for (double value : to_host(weights.window(place(p), p.shape))) values.push_back(value);
  return values;
}

Tensor WholeModel::buffer() const {
  return zeros({stage_.parameters().numel()}, training_.dtype, device_);
}

std::int64_t WholeModel::place(const Parameter& wanted) const {
  for (const Parameter& p : stage_.parameters())
    if (p.name == wanted.name) return p.offset;
  throw Error("no parameter " + wanted.name);
}

namespace {

// [snippet cyclic_rule]
/// theta(t+1) = theta(t) - (lr/N) sum_i grad f_i(u_i), where stage j of u_i is that of theta(t) if
/// fresh(i, j), else that of theta(t-1)
/// source: Fournier and Oyallon 2024
template <class Fresh>
Tensor cyclic(WholeModel& model, const Layout& layout, Fresh fresh) {
  std::vector<Tensor> theta{model.first()};
  for (int t = 0; t < layout.steps; ++t) {
    auto u = [&](int i) {
      return model.mixed([&](int j) { return theta[fresh(i, j) ? t : std::max(t - 1, 0)]; });
    };
    theta.push_back(model.update(theta[t], model.gradient(u, t), t + 1));
  }
  return theta.back();
}

}  // namespace

Tensor cyclic_v1(WholeModel& model, const Layout& layout) {
  return cyclic(model, layout, [](int, int) { return false; });
}

Tensor cyclic_v2(WholeModel& model, const Layout& layout) {
  return cyclic(model, layout, [n = layout.stages](int i, int j) { return i + j >= n - 1; });
}
// [end snippet]

}  // namespace plangrad::tests
