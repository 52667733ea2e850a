// The modules of a residual network and its list of layers, with the arithmetic of each.
// Running statistics are parameters of their own kind (model.h), so that cuts carry them.
// Chapter 02; He et al. 2016.
#include "nn/models/resnet.h"

#include <optional>

namespace plangrad::nn {
namespace {

/// A convolution without bias, then batch norm. Padding keeps the size if the stride is 1. In
/// training, the norm's observations reach its running statistics like gradients.
/// shapes: kernel (Out,In,size,size), all parameters of the norm (Out)
class ConvNorm {
 public:
  ConvNorm(ParameterList& list, const std::string& name, const std::string& norm, std::int64_t in,
           std::int64_t out, int size, int stride)
      : kernel_(list.add(name + ".weight", {out, in, size, size}, he_normal(out * size * size))),
        weight_(list.add(norm + ".weight", {out}, Init::constant(1))),
        bias_(list.add(norm + ".bias", {out}, Init::constant(0))),
        mean_(list.add(norm + ".running_mean", {out}, Init::constant(0), ParameterKind::statistic)),
        variance_(
            list.add(norm + ".running_var", {out}, Init::constant(1), ParameterKind::statistic)),
        size_(size),
        stride_(stride) {}

  Tensor forward(const Tensor& x, const Pass& pass) const {
    Tensor y = conv2d(x, kernel_.value, stride_, (size_ - 1) / 2);
    return batch_norm(y, weight_.value, bias_.value, {mean_.value, variance_.value}, pass.training);
  }

 private:
  /// Keeps the variance of gradients through a ReLU (He et al. 2015, eq. 14).
  static Init he_normal(std::int64_t fan_out) {
    return Init::normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
  }

  Parameter &kernel_, &weight_, &bias_, &mean_, &variance_;
  int size_, stride_;
};

/// relu(conv2(relu(conv1(x))) + shortcut(x)); the shortcut is x itself, or a 1x1 convolution if the
/// shape changes. A norm follows each convolution.
class BasicBlock : public Layer {
 public:
  BasicBlock(ParameterList& list, const std::string& name, std::int64_t in, std::int64_t out,
             int stride)
      : conv1_(list, name + ".conv1", name + ".bn1", in, out, 3, stride),
        conv2_(list, name + ".conv2", name + ".bn2", out, out, 3, 1) {
    if (in == out && stride == 1) return;
    shortcut_.emplace(list, name + ".downsample.0", name + ".downsample.1", in, out, 1, stride);
  }

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    Tensor y = conv2_.forward(relu(conv1_.forward(x, pass)), pass);
    return relu(y + (shortcut_ ? shortcut_->forward(x, pass) : x));
  }

 private:
  ConvNorm conv1_, conv2_;
  std::optional<ConvNorm> shortcut_;
};

/// The first convolution, which keeps the size of the image.
class Stem : public Layer {
 public:
  Stem(ParameterList& list, std::int64_t in, std::int64_t out)
      : conv_(list, "conv1", "bn1", in, out, 3, 1) {}

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    return relu(conv_.forward(x, pass));
  }

 private:
  ConvNorm conv_;
};

/// Averages each channel over the image, then applies a linear layer.
class ClassHead : public Layer {
 public:
  ClassHead(ParameterList& list, std::int64_t in, std::int64_t out)
      : linear_(list, "fc", in, out, first_values(in), first_values(in)) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    return linear_.forward(reshape(mean(x, {2, 3}), {x.size(0), x.size(1)}));
  }

 private:
  /// Initial values of PyTorch's linear layers (LeCun et al. 1998, 4.6, with 1/3 of the variance).
  static Init first_values(std::int64_t in) {
    return Init::uniform(1 / std::sqrt(static_cast<double>(in)));
  }

  Linear linear_;
};

/// Multiplications and additions of a convolution whose results are size x size.
double conv_flops(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t size) {
  return 2.0 * static_cast<double>(in * out * window * window * size * size);
}

LayerSpec block(const std::string& name, std::int64_t in, std::int64_t out, int stride,
                std::int64_t size) {
  double flops = conv_flops(in, out, 3, size) + conv_flops(out, out, 3, size);
  if (in != out || stride != 1) flops += conv_flops(in, out, 1, size);
  auto output = [=](const Shape& x) {
    return Shape{x[0], out, (x[2] - 1) / stride + 1, (x[3] - 1) / stride + 1};
  };
  return {name, builds<BasicBlock>(name, in, out, stride), flops, output};
}

}  // namespace

Model resnet18(const ResNetConfig& config) {
  PG_CHECK(config.channels > 0 && config.size > 0 && config.classes > 0 && config.width > 0,
           "resnet18: sizes must be positive, got ", config.channels, " channels, images of ",
           config.size, "x", config.size, ", ", config.classes, " classes, width ", config.width);
  Model model;
  std::int64_t size = config.size, in = config.width;
  auto features = [=](const Shape& x) { return x.with(1, config.width); };
  model.push_back({"stem", builds<Stem>(config.channels, config.width),
                   conv_flops(config.channels, in, 3, size), features});
  for (int group = 1; group <= 4; ++group) {
    std::int64_t out = config.width << (group - 1);
    for (int i = 0; i < 2; ++i) {
      int stride = group > 1 && i == 0 ? 2 : 1;
      size = (size - 1) / stride + 1;
      model.push_back(block(text("layer", group, ".", i), in, out, stride, size));
      in = out;
    }
  }
  auto scores = [=](const Shape& x) { return Shape{x[0], config.classes}; };
  model.push_back({"head", builds<ClassHead>(in, config.classes),
                   2.0 * static_cast<double>(in * config.classes), scores});
  return model;
}

}  // namespace plangrad::nn
