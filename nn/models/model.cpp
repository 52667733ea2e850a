// A stage binds its parameters to windows of one flat buffer, and sends their gradients to a sink.
// Those that it shares with other stages have another buffer, which all these stages have alike.
// Chapter 02.
#include "nn/models/model.h"

#include "autograd/backend.h"

namespace paragrad::nn {

Stage::Stage(const Model& model, int first, int last) {
  PG_CHECK(0 <= first && first < last && last <= static_cast<int>(model.size()), "layers [", first,
           ",", last, ") of a model with ", model.size(), " layers");
  for (int i = first; i < last; ++i) layers_.push_back(model[i].build(parameters_));
}

Stage::Stage(const Model& model, int first, int last, const ParameterList& shared)
    : Stage(model, first, last) {
  shared_ = parameters_.take(shared);
}

void Stage::initialize(const Tensor& weights, std::uint64_t seed) const {
  nn::initialize(parameters_, weights, seed);
}

void Stage::bind(const Tensor& weights, const Tensor& shared) {
  auto read = [](ParameterList& list, const ParameterList& stored, const char* kind,
                 const Tensor& flat) {
    if (list.size() == 0) return;
    PG_CHECK(flat.defined() && flat.numel() == stored.numel(), "bind: the stage has ",
             stored.numel(), kind, " parameters, the buffer of their values is ", flat);
    auto place = stored.begin();
    for (Parameter& parameter : list) {
      parameter.value = flat.window(place->offset, place->shape);
      parameter.product = (place++)->product;
    }
  };
  read(parameters_, stored_ ? *stored_ : parameters_, "", weights);
  read(shared_, shared_, " shared", shared);
}

void Stage::bind(const Tensor& weights, ParameterSink sink) { bind(weights, {}, std::move(sink)); }

void Stage::bind(const Tensor& weights, const Tensor& shared, ParameterSink sink) {
  bind(weights, shared);
  for (ParameterList* list : {&parameters_, &shared_})
    for (Parameter& parameter : *list)
      parameter.value =
          variable(parameter.value, [&parameter, sink](const Tensor& dx) { sink(parameter, dx); });
}

void Stage::unbind() {
  for (ParameterList* list : {&parameters_, &shared_})
    for (Parameter& parameter : *list) parameter.value = {};
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

Stage::ParameterSink add_to_flat(const Tensor& gradients, const Tensor& shared) {
  return [own = add_to_flat(gradients), common = add_to_flat(shared)](const Parameter& parameter,
                                                                      const Tensor& dx) {
    (parameter.shared ? common : own)(parameter, dx);
  };
}

}  // namespace paragrad::nn
