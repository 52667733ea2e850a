// ResNet-18: PyTorch's numbers, its size, its gradients, its cuts into stages.
#include "nn/models/resnet.h"

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/references.h"

using namespace plangrad::nn;
using namespace plangrad::tests;

namespace {

const ResNetConfig narrow{.channels = 2, .size = 8, .classes = 5, .width = 2};

/// The values that tests/references/image_ops.py gives a parameter.
Numbers reference_values(const Parameter& p) {
  auto shifted = [&](double scale) {
    Numbers values = wave(p.shape.numel(), p.offset, scale);
    for (double& value : values) value += 1;
    return values;
  };
  if (p.name.ends_with("running_mean")) return wave(p.shape.numel(), p.offset, 0.1);
  if (p.name.ends_with("running_var")) return shifted(0.5);
  if (p.shape.rank() > 1) return wave(p.shape.numel(), p.offset, 0.5);
  if (p.name.ends_with("bias")) return wave(p.shape.numel(), p.offset, 0.2);
  return shifted(0.3);
}

Tensor images(std::int64_t count, const DevicePtr& device, DType dtype = DType::f64) {
  Shape shape{count, narrow.channels, narrow.size, narrow.size};
  return cast(doubles(wave(shape.numel()), shape, device), dtype);
}

/// A stage of the narrow model with weights of its own and a sum of their gradients.
struct Piece {
  Stage stage;
  Tensor weights, gradients;

  Piece(int first, int last, const DevicePtr& device, DType dtype)
      : stage(resnet18(narrow), first, last),
        weights(empty({stage.parameters().numel()}, dtype, device)),
        gradients(zeros(weights.shape(), dtype == DType::bf16 ? DType::f32 : dtype, device)) {
    initialize(stage.parameters(), weights, 1);
    stage.bind(weights, add_to_flat(gradients));
  }
};

Tensor loss_of(const Tensor& logits) {
  return cross_entropy(logits, integers({0, 3, 4}, {3}, logits.device()));
}

}  // namespace

TEST_CASE("resnet: PyTorch's loss, gradients and running statistics", "[resnet]") {
  DevicePtr device = cpu_device();
  References references("image_ops.safetensors");
  Stage stage(resnet18(narrow), 0, 10);
  Numbers values;
  for (const Parameter& p : stage.parameters())
    for (double value : reference_values(p)) values.push_back(value);
  Tensor weights = doubles(values, {stage.parameters().numel()}, device);

  stage.bind(weights);
  Tensor logits = stage.forward(images(3, device), {.training = false});
  CHECK(difference(to_host(logits), references["resnet.inference.logits"]) < 1e-12);

  std::map<std::string, Numbers> arrived;
  stage.bind(weights, [&](const Parameter& p, const Tensor& dx) {
    CHECK(dx.shape() == p.shape);
    CHECK(arrived.emplace(p.name, to_host(dx)).second);  // once
  });
  logits = stage.forward(images(3, device), {.training = true});
  CHECK(difference(to_host(logits), references["resnet.logits"]) < 1e-11);
  Tensor loss = loss_of(logits);
  CHECK(item(loss) == Approx(references["resnet.loss"][0]).epsilon(1e-11));
  backward(loss);
  CHECK(arrived.size() == 102);
  for (const Parameter& p : stage.parameters()) {
    INFO(p.name);
    REQUIRE(arrived.contains(p.name));
    Numbers got = arrived[p.name];
    if (p.kind == ParameterKind::statistic) {  // the file has the value after an update by a tenth
      Numbers before = reference_values(p);
      for (std::size_t i = 0; i < got.size(); ++i) got[i] = 0.9 * before[i] + 0.1 * got[i];
    }
    CHECK(references.shape("resnet." + p.name) == p.shape);
    CHECK(difference(got, references["resnet." + p.name]) < 0x1p-23);  // stored in f32
  }
}

TEST_CASE("resnet: parameters and FLOPs are those of the paper's network", "[resnet]") {
  Model model = resnet18({.channels = 3, .size = 32, .classes = 10});
  REQUIRE(model.size() == resnet18_layers);
  CHECK(model[0].name == "stem");
  CHECK(model[4].name == "layer2.1");
  CHECK(model[9].name == "head");
  Stage stage(model, 0, 10);
  std::int64_t weights = 0, statistics = 0;
  for (const Parameter& p : stage.parameters())
    (p.kind == ParameterKind::weight ? weights : statistics) += p.shape.numel();
  CHECK(weights == 11173962);
  CHECK(statistics == 2 * (5 * 64 + 5 * 128 + 5 * 256 + 5 * 512));
  double flops = 0;
  for (const LayerSpec& layer : model) flops += layer.flops;
  CHECK(flops == 2.0 * 555422720);
  CHECK(model[3].flops ==
        2.0 * 256 * (64 * 128 * 9 + 128 * 128 * 9 + 64 * 128));  // with the shortcut
}

TEST_CASE("resnet: odd sizes of images are halved upwards", "[resnet]") {
  // 7 -> 7, 4, 2, 1
  Model model = resnet18({.channels = 1, .size = 7, .classes = 3, .width = 1});
  CHECK(model[7].flops == 2.0 * (4 * 8 * 9 + 8 * 8 * 9 + 4 * 8));
  DevicePtr device = cpu_device();
  Stage stage(model, 0, 10);
  Tensor weights = empty({stage.parameters().numel()}, DType::f32, device);
  initialize(stage.parameters(), weights, 1);
  stage.bind(weights);
  Tensor x = zeros({2, 1, 7, 7}, DType::f32, device);
  CHECK(stage.forward(x, {.training = true}).shape() == Shape{2, 3});
}

TEST_CASE("resnet: first values", "[resnet]") {
  DevicePtr device = cpu_device();
  Stage stage(resnet18({.channels = 3, .width = 16}), 0, 10);
  Tensor weights = empty({stage.parameters().numel()}, DType::f32, device);
  initialize(stage.parameters(), weights, 3);
  for (const Parameter& p : stage.parameters()) {
    INFO(p.name);
    Numbers values = to_host(weights.window(p.offset, p.shape));
    if (p.name.starts_with("fc.")) {
      double largest = 0;
      for (double value : values) largest = std::max(largest, std::abs(value));
      CHECK(largest <= 1 / std::sqrt(128.));
      CHECK(largest > 0.5 / std::sqrt(128.));
    } else if (p.shape.rank() == 4) {
      // The mean square of n normal numbers is within 6 sqrt(2/n) of the variance.
      double square = 0, n = static_cast<double>(values.size());
      for (double value : values) square += value * value / n;
      double variance = 2.0 / static_cast<double>(p.shape[0] * p.shape[2] * p.shape[3]);
      CHECK(std::abs(square / variance - 1) < 6 * std::sqrt(2 / n));
    } else {
      bool one = p.name.ends_with("running_var") || p.name.ends_with("weight");
      CHECK(values == Numbers(values.size(), one ? 1 : 0));
    }
  }
}

TEST_CASE("resnet: cut anywhere, it computes the same bits", "[resnet]") {
  DevicePtr device = cpu_device();
  Pass pass{.training = true};
  for (DType dtype : {DType::f32, DType::bf16}) {
    Piece whole(0, 10, device, dtype);
    Tensor x = images(3, device, dtype);
    Tensor logits = whole.stage.forward(x, pass);
    backward(loss_of(logits));
    Numbers expected = to_host(whole.gradients);
    for (int k = 1; k < 10; ++k) {
      INFO(dtype << ", cut before layer " << k);
      Piece head(0, k, device, dtype), tail(k, 10, device, dtype);
      Tensor sent = head.stage.forward(x, pass);
      Tensor received = variable(sent);
      Tensor result = tail.stage.forward(received, pass);
      CHECK(to_host(result) == to_host(logits));
      backward(loss_of(result));
      backward(sent, gradient(received));
      Numbers joined = to_host(head.gradients), rest = to_host(tail.gradients);
      joined.insert(joined.end(), rest.begin(), rest.end());
      CHECK(joined == expected);
    }
  }
}

TEST_CASE("resnet: in inference, images of a batch don't see each other", "[resnet]") {
  DevicePtr device = cpu_device();
  Piece piece(0, 10, device, DType::f64);
  Tensor x = images(3, device), first = slice(x, 0, 0, 1);
  for (bool training : {false, true}) {
    Numbers among = to_host(piece.stage.forward(x, {.training = training}));
    Numbers pair = to_host(piece.stage.forward(slice(x, 0, 0, 2), {.training = training}));
    bool same = difference(Numbers(pair.begin(), pair.begin() + 5),
                           Numbers(among.begin(), among.begin() + 5)) < 1e-12;
    CHECK(same == !training);
  }
  CHECK(piece.stage.forward(first, {.training = false}).shape() == Shape{1, 5});
  CHECK_THROWS_WITH(piece.stage.forward(first, {.training = true}),
                    Contains("more than one value in a channel"));
}

TEST_CASE("resnet: what it can't be is refused", "[resnet]") {
  CHECK_THROWS_WITH(resnet18({.classes = 0}),
                    Contains("sizes must be positive") && Contains("0 classes"));
  CHECK_THROWS_WITH(resnet18({.width = -1}), Contains("width -1"));
  DevicePtr device = cpu_device();
  Piece piece(0, 10, device, DType::f32);
  CHECK_THROWS_WITH(piece.stage.forward(zeros({1, 3, 8, 8}, DType::f32, device), {}),
                    Contains("has 3 channels"));
}
