// A stage binds its parameters to windows of one flat buffer, and sends their gradients to a sink.
// First weights are drawn by parameter name, so they do not depend on where the model is cut.
// Chapter 02.
#include "nn/model.h"

#include "autograd/backend.h"

namespace paragrad::nn {

Stage::Stage(const Model& model, int first, int last) {
  PG_CHECK(0 <= first && first < last && last <= static_cast<int>(model.size()), "layers [", first,
           ",", last, ") of a model with ", model.size(), " layers");
  for (int i = first; i < last; ++i) layers_.push_back(model[i].build(parameters_));
}

void Stage::initialize(const Tensor& weights, std::uint64_t seed) const {
  Backend& backend = weights.backend();
  for (const Parameter& parameter : parameters_) {
    Tensor value = weights.window(parameter.offset, parameter.shape);
    RandomKey key(seed, parameter.name);
    const Init& init = parameter.init;
    switch (init.kind) {
      case Init::Kind::constant: backend.fill(init.a, value); break;
      case Init::Kind::normal: backend.fill_normal(key, init.a, init.b, value); break;
      case Init::Kind::uniform: backend.fill_uniform(key, init.a, init.b, value); break;
    }
  }
}

void Stage::bind(const Tensor& weights) {
  PG_CHECK(weights.numel() == parameters_.numel(), "bind: the stage has ", parameters_.numel(),
           " parameters, the buffer ", weights.numel());
  for (Parameter& parameter : parameters_)
    parameter.value = weights.window(parameter.offset, parameter.shape);
}

void Stage::bind(const Tensor& weights, ParameterSink sink) {
  bind(weights);
  for (Parameter& parameter : parameters_)
    parameter.value =
        variable(parameter.value, [&parameter, sink](const Tensor& dx) { sink(parameter, dx); });
}

// [snippet forward]
Tensor Stage::forward(Tensor x, const Pass& pass) const {
  for (const Parameter& parameter : parameters_)
    PG_CHECK(parameter.value.defined(), "forward: no weights; call bind() first");
  for (const auto& layer : layers_) {
    auto forward = [&layer = *layer, pass](const Tensor& x) { return layer.forward(x, pass); };
    x = pass.recompute ? recompute(forward, x) : forward(x);
  }
  return x;
}

// [end snippet]

// [snippet add_to_flat]
Stage::ParameterSink add_to_flat(const Tensor& gradients) {
  return [gradients](const Parameter& parameter, const Tensor& dx) {
    dx.backend().accumulate(dx, gradients.window(parameter.offset, parameter.shape));
  };
}
// [end snippet]

}  // namespace paragrad::nn
