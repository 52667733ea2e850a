// LeNet-5's shape: two convolutions, each followed by a pool, and three linear layers.
// Not here: its original activations and connections; ReLU and full ones are used.
// Chapter 14; LeCun et al. 1998, "Gradient-based learning applied to document recognition".
#include <cmath>

#include "nn/models/model.h"
#include "tests/adding/added.h"

namespace plangrad::nn {
namespace {

/// He et al. 2015, eq. 10.
Init before_relu(std::int64_t in) { return Init::normal(std::sqrt(2.0 / static_cast<double>(in))); }

// [snippet layers]
/// relu(conv(x) + bias), then the maximum of each 2 x 2 window.   (N,In,H,W) -> (N,Out,H/2,W/2)
class Convolution : public Layer {
 public:
  Convolution(ParameterList& list, const std::string& name, int in, int out, int padding)
      : kernel_(list.add(name + ".weight", {out, in, 5, 5}, before_relu(25 * in))),
        bias_(list.add(name + ".bias", {out, 1, 1}, Init::constant(0))),
        padding_(padding) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    return max_pool2d(relu(conv2d(x, kernel_.value, 1, padding_) + bias_.value), 2, 2);
  }

 private:
  Parameter &kernel_, &bias_;
  int padding_;
};

/// relu(x weight^T + bias) of each image's values in one row; the last layer has no relu.
class Dense : public Layer {
 public:
  Dense(ParameterList& list, const std::string& name, int in, int out, bool last)
      : linear_(list, name, in, out, before_relu(in)), last_(last) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    const Tensor y = linear_.forward(reshape(x, {x.size(0), -1}));
    return last_ ? y : relu(y);
  }

 private:
  Linear linear_;
  bool last_;
};
// [end snippet]

// [snippet specs]
/// `size`: height and width of the convolution's result, before the pool.
LayerSpec convolution(const std::string& name, int in, int out, int padding, int size) {
  auto output = [=](const Shape& x) { return Shape{x[0], out, size / 2, size / 2}; };
  return {name, builds<Convolution>(name, in, out, padding), 2.0 * 25 * in * out * size * size,
          output};
}

LayerSpec dense(const std::string& name, int in, int out, bool last = false) {
  auto output = [=](const Shape& x) { return Shape{x[0], out}; };
  return {name, builds<Dense>(name, in, out, last), 2.0 * in * out, output};
}
// [end snippet]

}  // namespace

// [snippet lenet]
Model lenet() {
  return {convolution("conv1", 1, 6, 2, 28), convolution("conv2", 6, 16, 0, 10),
          dense("dense1", 16 * 5 * 5, 120), dense("dense2", 120, 84),
          dense("scores", 84, 10, true)};
}
// [end snippet]

}  // namespace plangrad::nn
