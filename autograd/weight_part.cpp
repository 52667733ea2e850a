// A node with weights is asked twice: by the sweep for the gradients of its other inputs, and by
// run() for those of its weights. Chapter 06.
#include "autograd/weight_part.h"

#include <algorithm>

namespace plangrad::autograd {

static bool any(const std::vector<std::shared_ptr<Node>>& inputs) {
  return std::ranges::any_of(inputs, [](const auto& input) { return input != nullptr; });
}

/// Charges what waits for the weight part, which the sweep made as workspace.
static void keep(const Tensor& x) { x.storage()->charge_to(Category::activations); }

// [snippet put_off]
std::vector<Tensor> WeightPart::put_off(Node& node, const Tensor& dy, Sweep& sweep) {
  // Divide the inputs: weights are for later, the others stay with the node.
  LaterNode rest{nullptr, dy, node.inputs};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_weight = node.inputs[i] && node.inputs[i]->sink;
    (is_weight ? node.inputs : rest.inputs)[i] = nullptr;
  }
  std::vector<Tensor> gradients(node.inputs.size());
  if (any(node.inputs) || !any(rest.inputs))
    gradients = node.backward(dy, Wanted(node.inputs, &sweep, this));
  if (any(rest.inputs)) keep_for_later(std::move(rest), node, gradients);
  return gradients;
}
// [end snippet]

/// Keeps the node's function and dy; or the gradients of its weights, if the function has made all
/// of them along with the others.
void WeightPart::keep_for_later(LaterNode rest, Node& node, std::vector<Tensor> gradients) {
  device_ = rest.dy.device();
  bool made = true;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!rest.inputs[i]) gradients[i] = {};
    made &= !rest.inputs[i] || gradients[i].defined();
  }
  if (made) {
    rest.dy = {};
    for (const Tensor& dx : gradients)
      if (dx.defined()) keep(dx);
    rest.backward = [gradients](const Tensor&, const Wanted&) { return gradients; };
  } else {
    keep(rest.dy);
    rest.backward = std::move(node.backward);
  }
  kept_.push_back(std::move(rest));
}

void WeightPart::run() {
  if (kept_.empty()) return;
  const NoGrad no_grad(*device_);
  const CategoryScope category(*device_, Category::workspace);
  for (; !kept_.empty(); kept_.pop_front()) {
    LaterNode& kept = kept_.front();
    std::vector<Tensor> gradients = kept.backward(std::exchange(kept.dy, {}), Wanted(kept.inputs));
    kept.backward = nullptr;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (const Tensor dx = std::exchange(gradients[i], {}); kept.inputs[i] && dx.defined())
        kept.inputs[i]->sink(dx);
  }
}

}  // namespace plangrad::autograd
