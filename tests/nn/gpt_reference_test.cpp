// A GPT's step and its training against PyTorch's numbers, and GPT-2 files against transformers'.
// Scripts: tests/references/gpt_step.py and gpt2_huggingface.py.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/models/gpt.h"
#include "nn/optimizers/optimizer.h"
#include "tests/catch.h"
#include "tests/folders.h"
#include "tests/references.h"

using namespace plangrad::nn;
using namespace plangrad::tests;

namespace {

/// The model of gpt_step.py with its first weights, as flat buffers of one type.
struct ReferenceRun {
  GptConfig config{2, 2, 16, 8, 19, 0, true};
  References file{"gpt_step.safetensors"};
  DevicePtr device = cpu_device();
  Stage stage{gpt(config), 0, config.layers + 2};
  Tensor weights, gradients, tokens, targets;

  explicit ReferenceRun(DType dtype) {
    Shape flat{stage.parameters().numel()};
    weights = zeros(flat, dtype, device);
    gradients = zeros(flat, dtype, device);
    for (const Parameter& parameter : stage.parameters()) {
      Tensor value = doubles(file["weight." + parameter.name], parameter.shape, device);
      device->backend().copy(value, weights.window(parameter.offset, parameter.shape));
    }
    stage.bind(weights, add_to_flat(gradients));
    tokens = integers(file.integers("tokens"), file.shape("tokens"), device);
    targets = integers(file.integers("targets"), file.shape("targets"), device);
  }

  /// The worst difference of any parameter from the tensors kind.NAME of the file.
  double worst(const std::string& kind, const Tensor& flat) const {
    double worst = 0;
    for (const Parameter& parameter : stage.parameters()) {
      Numbers got = to_host(flat.window(parameter.offset, parameter.shape));
      double off = difference(got, file[kind + "." + parameter.name]);
      worst = off <= worst ? worst : off;  // takes NaN
    }
    return worst;
  }
};

/// How far numbers may be off, as a share of the largest of their tensor: in f64 by the file's
/// rounding to f32; in f32 by what a chain of some `roundings` sums up.
double bound(DType dtype, double roundings) {
  return dtype == DType::f64 ? 0x1p-24 + 1e-10 : roundings * 0x1p-24;
}

}  // namespace

TEST_CASE("gpt: one step gives PyTorch's logits, loss and gradients", "[reference]") {
  for (DType dtype : {DType::f64, DType::f32}) {
    INFO(dtype);
    ReferenceRun m(dtype);
    Tensor logits = m.stage.forward(m.tokens, {});
    CHECK(difference(to_host(logits), m.file["logits"]) <= bound(dtype, 64));
    Tensor loss = cross_entropy(logits, m.targets);
    CHECK(item(loss) == Approx(m.file["losses"][0]).epsilon(bound(dtype, 64)));
    backward(loss);
    // 24 positions, two layers there and back.
    CHECK(m.worst("gradient", m.gradients) <= bound(dtype, 256));
    // Every parameter of the file is one of ours.
    std::size_t weights = 0;
    for (const SafetensorsEntry& entry : m.file.file().entries())
      weights += entry.name.rfind("weight.", 0) == 0;
    CHECK(weights == m.stage.parameters().size());
  }
}

TEST_CASE("gpt: ten steps of AdamW give PyTorch's losses, norms and weights", "[reference]") {
  for (DType dtype : {DType::f64, DType::f32}) {
    INFO(dtype);
    ReferenceRun m(dtype);
    LearningRate rate{1e-2, 1e-3, 3, 10};
    auto optimizer = make_adamw(m.stage.parameters(), m.weights, 0.1, 0.9, 0.95);
    Numbers losses, norms;
    for (int step = 0; step < 10; ++step) {
      m.device->backend().fill(0, m.gradients);
      Tensor loss = cross_entropy(m.stage.forward(m.tokens, {}), m.targets);
      backward(loss);
      norms.push_back(gradient_norm(m.stage.parameters(), m.gradients));
      losses.push_back(item(loss));
      double clip = clip_scale(norms.back(), 1.0);
      optimizer->step({rate.at(step), 1, clip, step + 1}, m.weights, m.gradients);
    }
    CHECK(difference(losses, m.file["losses"]) <= bound(dtype, 512));
    CHECK(difference(norms, m.file["gradient_norms"]) <= bound(dtype, 512));
    // Not in f32: the true gradient of the keys' biases is 0, and AdamW makes steps of full size
    // out of whatever rounding leaves of it.
    if (dtype == DType::f64) CHECK(m.worst("final", m.weights) <= bound(dtype, 1));
  }
}

TEST_CASE("gpt: GPT-2's files give the logits of transformers", "[reference]") {
  References expected("gpt2_huggingface/expected.safetensors");
  for (const char* folder : {"with_prefix", "without_prefix"}) {
    INFO(folder);
    std::string path = clone_path("tests/references/gpt2_huggingface/");
    path += folder;
    GptConfig config = read_gpt_config(path);
    CHECK(config.layers == 2);
    CHECK(config.heads == 3);
    DevicePtr device = cpu_device();
    Stage stage(gpt(config), 0, config.layers + 2);
    Tensor weights = zeros({stage.parameters().numel()}, DType::f64, device);
    load_gpt_weights(path, stage.parameters(), weights);
    stage.bind(weights);
    Tensor tokens = integers(expected.integers("tokens"), expected.shape("tokens"), device);
    Tensor logits = stage.forward(tokens, {});
    CHECK(logits.shape() == expected.shape("logits"));
    CHECK(difference(to_host(logits), expected["logits"]) <= bound(DType::f64, 1));
  }
}
