// Modules that layers are made of: a few weights and the operation that reads them.
// Not here: whole networks (nn/models/gpt.h, nn/models/resnet.h).
// Chapter 02.
#pragma once

#include "autograd/ops.h"
#include "nn/models/model.h"

namespace plangrad::nn {

/// x weight^T + bias; bias may be undefined.
inline Tensor linear(const Tensor& x, const Parameter& weight, const Tensor& bias = {}) {
  if (weight.product) return weight.product(x, weight.value, bias);
  return autograd::linear(x, weight.value, bias);
}

/// Makes a LayerSpec::build function that builds a layer of type L from these arguments.
template <class L, class... Arguments>
auto builds(const Arguments&... arguments) {
  return [=](ParameterList& list) { return std::make_unique<L>(list, arguments...); };
}

/// y = x weight^T + bias.                                           weight (Out,In), bias (Out)
class Linear {
 public:
  Linear(ParameterList& list, const std::string& name, std::int64_t in, std::int64_t out, Init init,
         Init bias = Init::constant(0))
      : weight_(list.add(name + ".weight", {out, in}, init)),
        bias_(list.add(name + ".bias", {out}, bias)) {
    weight_.multiplies = true;
  }

  Tensor forward(const Tensor& x) const { return linear(x, weight_, bias_.value); }
  /// gelu(forward(x)) with the bias and the GELU in one pass.
  Tensor forward_gelu(const Tensor& x) const { return bias_gelu(linear(x, weight_), bias_.value); }

 private:
  Parameter &weight_, &bias_;
};

/// Layer norm over the last dimension.                                  weight (C), bias (C)
class LayerNorm {
 public:
  LayerNorm(ParameterList& list, const std::string& name, std::int64_t width)
      : weight_(list.add(name + ".weight", {width}, Init::constant(1))),
        bias_(list.add(name + ".bias", {width}, Init::constant(0))) {}

  Tensor forward(const Tensor& x) const { return layer_norm(x, weight_.value, bias_.value); }
  /// x + a, and forward(x + a), in one pass.
  SumAndNorm forward(const Tensor& x, const Tensor& a) const {
    return add_layer_norm(x, a, weight_.value, bias_.value);
  }

 private:
  Parameter &weight_, &bias_;
};

}  // namespace plangrad::nn
