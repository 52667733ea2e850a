// Every operation against PyTorch's numbers (tests/references/ops.py), result and gradients.
// Not here: operations on images (image_test.cpp).
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/references.h"

using namespace plangrad::tests;

namespace {

using Inputs = std::vector<Tensor>;

struct Case {
  const char* name;
  Tensor (*f)(const Inputs&);
};

const Case cases[] = {
    {"add", [](const Inputs& x) { return x[0] + x[1]; }},
    {"subtract", [](const Inputs& x) { return x[0] - x[1]; }},
    {"multiply", [](const Inputs& x) { return x[0] * x[1]; }},
    {"divide", [](const Inputs& x) { return x[0] / x[1]; }},
    {"affine", [](const Inputs& x) { return affine(x[0], -1.5, 0.25); }},
    {"negate", [](const Inputs& x) { return negate(x[0]); }},
    {"exp", [](const Inputs& x) { return exp(x[0]); }},
    {"log", [](const Inputs& x) { return log(x[0]); }},
    {"sqrt", [](const Inputs& x) { return sqrt(x[0]); }},
    {"tanh", [](const Inputs& x) { return tanh(x[0]); }},
    {"relu", [](const Inputs& x) { return relu(x[0]); }},
    {"gelu", [](const Inputs& x) { return gelu(x[0]); }},
    {"bias_gelu", [](const Inputs& x) { return bias_gelu(x[0], x[1]); }},
    {"sum",
     [](const Inputs& x) {
       return sum(x[0], {0, 2});
     }},
    {"mean", [](const Inputs& x) { return mean(x[0], {1}); }},
    {"max",
     [](const Inputs& x) {
       return max(x[0], {1, 2});
     }},
    {"reshape",
     [](const Inputs& x) {
       return reshape(x[0], {6, 10});
     }},
    {"permute",
     [](const Inputs& x) {
       return permute(x[0], {2, 0, 1});
     }},
    {"transpose", [](const Inputs& x) { return transpose(x[0], 0, 2); }},
    {"slice", [](const Inputs& x) { return slice(x[0], 1, 1, 3); }},
    {"concatenate", [](const Inputs& x) { return concatenate(x, 1); }},
    {"matmul", [](const Inputs& x) { return matmul(x[0], x[1]); }},
    {"matmul_transposed",
     [](const Inputs& x) {
       return matmul(x[0], x[1], {true, true});
     }},
    {"linear", [](const Inputs& x) { return linear(x[0], x[1], x[2]); }},
    {"softmax", [](const Inputs& x) { return softmax(x[0]); }},
    {"layer_norm", [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); }},
    {"cross_entropy", [](const Inputs& x) { return cross_entropy(x[0], x[1]); }},
    {"embedding", [](const Inputs& x) { return embedding(x[0], x[1]); }},
    {"attention", [](const Inputs& x) { return attention(x[0], 2); }},
};

}  // namespace

TEST_CASE("reference: operations give PyTorch's numbers", "[reference]") {
  References file("ops.safetensors");
  REQUIRE(file.file().metadata().contains("torch"));
  // We compute in f64 like the script, whose numbers were then rounded to f32: half a last place,
  // and room for sums in another order.
  double bound = 0x1p-24 + 1e-12;
  std::size_t tensors = 0;
  for (const Case& c : cases) {
    INFO(c.name);
    DevicePtr device = cpu_device();
    auto name = [&](const char* part, std::size_t i) { return text(c.name, '.', part, '.', i); };
    auto key = [&](const char* part) { return text(c.name, '.', part); };
    std::vector<Tensor> inputs;
    while (file.contains(name("input", inputs.size()))) {
      std::string input = name("input", inputs.size());
      bool floating = file.contains(name("gradient", inputs.size()));
      inputs.push_back(floating ? variable(doubles(file[input], file.shape(input), device))
                                : integers(file.integers(input), file.shape(input), device));
    }
    Tensor y = c.f(inputs);
    CHECK(y.shape() == file.shape(key("output")));
    CHECK(difference(to_host(y), file[key("output")]) <= bound);
    backward(y, doubles(file[key("dy")], y.shape(), device));
    tensors += 2 + inputs.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      CHECK(difference(to_host(gradient(inputs[i])), file[name("gradient", i)]) <= bound);
      ++tensors;
    }
  }
  CHECK(tensors == file.file().entries().size());  // nothing in the file is left unread
}
