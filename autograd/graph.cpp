// The sweep: a node runs once all its consumers have, and what it kept is freed at once.
// Not here: the gradients' formulas (autograd/ops), sums of tensors (the backend's accumulate).
// Chapter 01.
#include "autograd/graph.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "autograd/backend.h"
#include "autograd/weight_part.h"

namespace plangrad::autograd {

/// Deletes a node after the nodes that its deletion releases, in a loop: a chain of 100,000 nodes
/// that deleted each other from their destructors would overflow the stack.
static void release(Node* node) {
  static thread_local std::vector<Node*> waiting;
  static thread_local bool deleting = false;
  waiting.push_back(node);
  if (std::exchange(deleting, true)) return;
  while (!waiting.empty()) {
    Node* next = waiting.back();
    waiting.pop_back();
    delete next;
  }
  deleting = false;
}

static std::shared_ptr<Node> make_node(const char* name, Device& device) {
  std::shared_ptr<Node> node(new Node, release);
  node->name = name;
  node->sequence = device.next_sequence();
  return node;
}

/// a + b, computed in place if nothing else uses a's storage.
static Tensor sum(Tensor a, const Tensor& b) {
  if (a.storage().use_count() > 1) {
    Tensor copy = empty_like(a);
    a.backend().copy(a, copy);
    a = copy;
  }
  a.backend().accumulate(b, a);
  return a;
}

static void add_to(Tensor& total, const Tensor& contribution) {
  total = total.defined() ? sum(std::exchange(total, {}), contribution) : contribution;
}

static void deliver(const Tensor& dx, Node& leaf) {
  leaf.sink ? leaf.sink(dx) : add_to(leaf.gradient, dx);
}

/// A sweep's record of a node: the sum of the gradients that have arrived, and the number of those
/// that have not. It is kept beside the graph, so that a sweep that fails leaves no traces.
struct Pending {
  int consumers = 0;
  Tensor gradient;
};
struct Sweep : std::unordered_map<const Node*, Pending> {};

Tensor Wanted::take_sum(std::size_t input) const {
  Node* node = inputs_[input].get();
  if (!node || !sweep_) return {};
  return std::exchange(node->is_leaf ? node->gradient : (*sweep_)[node].gradient, {});
}

/// Counts the uses of each node's result, for all nodes reachable from `root`.
static Sweep count_consumers(const Node* root) {
  Sweep sweep;
  std::vector<const Node*> stack{root};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    PG_CHECK(node->backward, "backward: the graph behind `", node->name,
             "` was used and freed by an earlier backward; compute the result again");
    for (const auto& input : node->inputs)
      if (input && !input->is_leaf && ++sweep[input.get()].consumers == 1)
        stack.push_back(input.get());
  }
  return sweep;
}

Tensor variable(const Tensor& x, GradientSink sink) {
  Tensor result = x.detach();
  auto leaf = make_node("leaf", *x.device());
  leaf->is_leaf = true;
  leaf->sink = std::move(sink);
  result.set_node(std::move(leaf));
  return result;
}

const Tensor& gradient(const Tensor& x) {
  PG_CHECK(
      x.requires_grad() && x.node()->gradient.defined(),
      "gradient: nothing has reached this tensor; make it with variable() and call backward()");
  return x.node()->gradient;
}

Tensor record(const Tensor& y, const char* name, const std::vector<Tensor>& inputs,
              BackwardFunction backward) {
  bool needed = std::ranges::any_of(inputs, &Tensor::requires_grad);
  if (!needed || !y.device()->records_gradients()) return y;
  auto node = make_node(name, *y.device());
  for (const Tensor& x : inputs) {
    PG_CHECK(!x.defined() || x.device() == y.device(), name, ": inputs on different devices");
    node->inputs.push_back(x.node());
  }
  node->backward = std::move(backward);
  Tensor result = y.detach();
  result.set_node(std::move(node));
  return result;
}

Tensor record(const Tensor& y, const char* name, const std::vector<Tensor>& inputs,
              std::function<std::vector<Tensor>(const Tensor& dy)> backward) {
  return record(y, name, inputs,
                [f = std::move(backward)](const Tensor& dy, const Wanted&) { return f(dy); });
}

Tensor record(const Tensor& y, const char* name, const Tensor& x,
              std::function<Tensor(const Tensor& dy)> backward) {
  return record(y, name, std::vector<Tensor>{x},
                [f = std::move(backward)](const Tensor& dy, const Wanted&) {
                  return std::vector<Tensor>{f(dy)};
                });
}

void backward(const Tensor& y, const Tensor& dy, WeightPart* later) {
  PG_CHECK(y.requires_grad(),
           "backward: this tensor has no graph; it was not computed from a variable()");
  PG_CHECK(dy.defined() || y.numel() == 1, "backward: a result of shape ", y.shape(),
           " needs its gradient as the second argument");
  PG_CHECK(!dy.defined() || dy.shape() == y.shape(), "backward: the gradient is ", dy.shape(),
           ", the result ", y.shape());
  NoGrad no_grad(*y.device());
  CategoryScope category(*y.device(), Category::workspace);
  Tensor seed = dy.defined() ? dy.detach() : full(y.shape(), 1, y.dtype(), y.device());
  std::shared_ptr<Node> root = y.node();
  if (root->is_leaf) return deliver(seed, *root);
  Sweep sweep = count_consumers(root.get());

  // Run each node once all its consumers have run; if several are ready, the newest.
  auto newer = [](const auto& a, const auto& b) { return a->sequence < b->sequence; };
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, decltype(newer)>
      ready(newer);
  sweep[root.get()].gradient = std::move(seed);
  ready.push(std::move(root));
  // [snippet sweep]
  while (!ready.empty()) {
    std::shared_ptr<Node> node = ready.top();
    ready.pop();
    std::vector<Tensor> gradients(node->inputs.size());
    if (const Tensor dy = std::exchange(sweep[node.get()].gradient, {}); dy.defined())
      gradients = later ? later->put_off(*node, dy, sweep)
                        : node->backward(dy, Wanted(node->inputs, &sweep));
    node->backward = nullptr;  // frees what the forward pass had kept
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      const auto& input = node->inputs[i];
      if (!input) continue;
      Tensor dx = std::exchange(gradients[i], {});
      if (input->is_leaf) {
        if (dx.defined()) deliver(dx, *input);
        continue;
      }
      Pending& pending = sweep[input.get()];
      if (dx.defined()) add_to(pending.gradient, dx);
      if (--pending.consumers == 0) ready.push(input);
    }
    node->inputs.clear();
  }
  // [end snippet]
}

Tensor recompute(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const DevicePtr& device = x.device();
  if (!device->records_gradients()) return f(x);
  Tensor y;
  {
    NoGrad no_grad(*device);
    y = f(x);
  }
  auto node = make_node("recompute", *device);
  node->inputs.push_back(x.node());
  node->backward = [f, x](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
    Tensor again = wanted[0] ? variable(x) : x;
    Tensor y = [&] {
      EnableGrad enable_grad(*x.device());
      CategoryScope category(*x.device(), Category::activations);
      return f(again);
    }();
    // The weights that f reads receive their gradients during this backward, or later.
    if (y.requires_grad()) autograd::backward(y, dy, wanted.later);
    return {wanted[0] ? std::exchange(again.node()->gradient, {}) : Tensor()};
  };
  y.set_node(std::move(node));
  return y;
}

}  // namespace plangrad::autograd
