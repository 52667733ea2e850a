// The modules of a residual network and its list of layers, with the arithmetic of each.
// Running statistics are parameters of their own kind (parameter.h), so that cuts carry them.
// Chapter 02; He et al. 2016.
#include "nn/models/resnet.h"

#include <cmath>
#include <optional>

#include "autograd/ops.h"

namespace paragrad::nn {

namespace {

/// Convolution without bias; padding keeps the size where the stride is 1.   weight (Out,In,s,s)
class Conv2d {
 public:
  Conv2d(ParameterList& list, const std::string& name, std::int64_t in, std::int64_t out, int size,
         int stride)
      : weight_(list.add(name + ".weight", {out, in, size, size}, he_normal(out * size * size))),
        size_(size),
        stride_(stride) {}

  Tensor forward(const Tensor& x) const {
    return conv2d(x, weight_.value, stride_, (size_ - 1) / 2);
  }

 private:
  /// Keeps the variance of gradients through a ReLU (He et al. 2015, eq. 14).
  static Init he_normal(std::int64_t fan_out) {
    return Init::normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
  }

  Parameter& weight_;
  int size_, stride_;
};

/// Batch norm; what it observes while training reaches its statistics like a gradient.
class BatchNorm2d {
 public:
  BatchNorm2d(ParameterList& list, const std::string& name, std::int64_t channels)
      : weight_(list.add(name + ".weight", {channels}, Init::constant(1))),
        bias_(list.add(name + ".bias", {channels}, Init::constant(0))),
        mean_(list.add(name + ".running_mean", {channels}, Init::constant(0),
                       ParameterKind::statistic)),
        variance_(list.add(name + ".running_var", {channels}, Init::constant(1),
                           ParameterKind::statistic)) {}

  Tensor forward(const Tensor& x, const Pass& pass) const {
    return batch_norm(x, weight_.value, bias_.value, {mean_.value, variance_.value}, pass.training);
  }

 private:
  Parameter &weight_, &bias_, &mean_, &variance_;
};

// [snippet basic-block]
/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)); the shortcut is x itself, or a 1x1
/// convolution where the shape changes.
class BasicBlock : public Layer {
 public:
  BasicBlock(ParameterList& list, const std::string& name, std::int64_t in, std::int64_t out,
             int stride)
      : conv1_(list, name + ".conv1", in, out, 3, stride),
        norm1_(list, name + ".bn1", out),
        conv2_(list, name + ".conv2", out, out, 3, 1),
        norm2_(list, name + ".bn2", out) {
    if (in == out && stride == 1) return;
    shortcut_.emplace(list, name + ".downsample.0", in, out, 1, stride);
    shortcut_norm_.emplace(list, name + ".downsample.1", out);
  }

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    Tensor y = relu(norm1_.forward(conv1_.forward(x), pass));
    y = norm2_.forward(conv2_.forward(y), pass);
    Tensor shortcut = shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x), pass) : x;
    return relu(y + shortcut);
  }

 private:
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
  std::optional<Conv2d> shortcut_;
  std::optional<BatchNorm2d> shortcut_norm_;
};
// [end snippet basic-block]

/// The first convolution, which keeps the size of the image.
class Stem : public Layer {
 public:
  Stem(ParameterList& list, std::int64_t in, std::int64_t out)
      : conv_(list, "conv1", in, out, 3, 1), norm_(list, "bn1", out) {}

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    return relu(norm_.forward(conv_.forward(x), pass));
  }

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
};

/// The average over each channel's image, then a linear layer.         weight (Out,In), bias (Out)
class Head : public Layer {
 public:
  Head(ParameterList& list, std::int64_t in, std::int64_t out)
      : weight_(list.add("fc.weight", {out, in}, Init::uniform(bound(in)))),
        bias_(list.add("fc.bias", {out}, Init::uniform(bound(in)))) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    Tensor features = reshape(mean(x, {2, 3}), {x.size(0), x.size(1)});
    return linear(features, weight_.value, bias_.value);
  }

 private:
  /// PyTorch's for linear layers (LeCun et al. 1998, section 4.6, with a third of its variance).
  static double bound(std::int64_t in) { return 1 / std::sqrt(static_cast<double>(in)); }

  Parameter &weight_, &bias_;
};

/// Multiplications and additions of a convolution whose results are size x size.
double conv_flops(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t size) {
  return 2.0 * static_cast<double>(in * out * window * window * size * size);
}

LayerSpec block(const std::string& name, std::int64_t in, std::int64_t out, int stride,
                std::int64_t size) {
  double flops = conv_flops(in, out, 3, size) + conv_flops(out, out, 3, size);
  if (in != out || stride != 1) flops += conv_flops(in, out, 1, size);
  auto build = [=](ParameterList& list) -> std::unique_ptr<Layer> {
    return std::make_unique<BasicBlock>(list, name, in, out, stride);
  };
  auto output = [=](const Shape& x) {
    return Shape{x[0], out, (x[2] - 1) / stride + 1, (x[3] - 1) / stride + 1};
  };
  return {name, build, flops, output};
}

}  // namespace

Model resnet18(const ResNetConfig& config) {
  PG_CHECK(config.channels > 0 && config.size > 0 && config.classes > 0 && config.width > 0,
           "resnet18: sizes must be positive, got ", config.channels, " channels, images of ",
           config.size, "x", config.size, ", ", config.classes, " classes, width ", config.width);
  Model model;
  std::int64_t size = config.size, in = config.width;
  auto stem = [=](ParameterList& list) {
    return std::make_unique<Stem>(list, config.channels, config.width);
  };
  auto features = [=](const Shape& x) { return x.with(1, config.width); };
  model.push_back({"stem", stem, conv_flops(config.channels, in, 3, size), features});
  for (int group = 1; group <= 4; ++group) {
    std::int64_t out = config.width << (group - 1);
    for (int i = 0; i < 2; ++i) {
      int stride = group > 1 && i == 0 ? 2 : 1;
      size = (size - 1) / stride + 1;
      model.push_back(block(text("layer", group, ".", i), in, out, stride, size));
      in = out;
    }
  }
  auto head = [=](ParameterList& list) { return std::make_unique<Head>(list, in, config.classes); };
  auto scores = [=](const Shape& x) { return Shape{x[0], config.classes}; };
  model.push_back({"head", head, 2.0 * static_cast<double>(in * config.classes), scores});
  return model;
}

}  // namespace paragrad::nn
