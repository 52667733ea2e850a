// sparse_linear: gradients, precision, the dense layer with zeros as its reference, messages.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/csr.h"
#include "tests/guarded_device.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using namespace plangrad::sparse;

namespace {

using Index = std::vector<std::int32_t>;

/// A layer and its input; `index` has the weight's elements.
struct Layer {
  Shape x;
  std::int64_t out;
  Index index;

  std::int64_t elements() const { return static_cast<std::int64_t>(index.size()); }
  SparseWeight weight(const DevicePtr& device) const {
    return SparseWeight(integers(index, {elements()}, device), out, x[-1]);
  }
};

Index random_index(std::int64_t size, double kept) {
  Index index;
  for (std::int64_t i = 0; i < size; ++i)
    if (uniform(RandomKey(1, "mask"), i) < kept) index.push_back(static_cast<std::int32_t>(i));
  return index;
}

/// Full, with empty rows and columns, of one element; one or many rows and columns.
std::vector<Layer> layers() {
  return {{{1, 1}, 1, {0}},
          {{7}, 9, random_index(63, 0.3)},
          {{17, 7}, 9, random_index(63, 1)},
          {{2, 3, 7}, 9, {10}},
          {{5, 33}, 3, random_index(99, 0.2)},
          {{3, 1}, 17, random_index(17, 0.5)},
          {{3, 6}, 4, {12, 13, 14, 15, 16, 17}}};
}

OpCase op_case(const Layer& layer, bool with_bias) {
  constexpr double low = -0.25;  // mostly positive: sums in which all cancels would hide errors
  std::vector<OpInput> inputs{{layer.x, low}, {{layer.elements()}, low}};
  if (with_bias) inputs.push_back({{layer.out}, low});
  std::int64_t in = layer.x[-1], rows = layer.x.numel() / in;
  return {text("sparse_linear ", layer.x, ' ', layer.out, ' ', layer.elements(),
               with_bias ? "" : " without bias"),
          inputs,
          [layer, with_bias](const std::vector<Tensor>& v) {
            return sparse_linear(v[0], layer.weight(v[0].device()), v[1],
                                 with_bias ? v[2] : Tensor());
          },
          {in + 3.0},
          {std::max(rows, layer.out) + 2.0}};
}

}  // namespace

TEST_CASE("sparse linear: gradients and precision", "[sparse]") {
  for (const Layer& layer : layers())
    for (bool with_bias : {true, false})
      CHECK_NOTHROW(check_op(op_case(layer, with_bias), cpu_device()));
}

TEST_CASE("sparse linear: gradients where everything is used twice", "[sparse]") {
  Layer layer{{5, 6}, 6, random_index(36, 0.4)};
  OpCase op{"x + W W x", {{layer.x}, {{layer.elements()}}, {{6}}}, [&](const auto& v) {
              SparseWeight weight = layer.weight(v[0].device());
              Tensor h = sparse_linear(v[0], weight, v[1], v[2]);
              return v[0] + sparse_linear(h, weight, v[1], v[2]);
            }};
  CHECK_NOTHROW(check_op_gradients(op, cpu_device()));
}

TEST_CASE("sparse linear: the dense layer with zeros", "[sparse]") {
  // In f64 both are within roundings of each other: 33 terms below 1 and as many sums.
  DevicePtr device = cpu_device();
  for (const Layer& layer : layers()) {
    std::int64_t out = layer.out;
    SparseWeight pattern = layer.weight(device);
    Tensor values = variable(uniform_tensor({{layer.elements()}}, "values", device));
    Tensor weight = variable(to_dense({pattern.pattern, values.detach()}));
    Tensor bias = variable(uniform_tensor({{out}}, "bias", device)),
           bias2 = variable(bias.detach());
    Tensor x = variable(uniform_tensor({layer.x}, "x", device)), x2 = variable(x.detach());
    Tensor y = sparse_linear(x, pattern, values, bias), y2 = linear(x2, weight, bias2);
    Tensor dy = uniform_tensor({y.shape()}, "dy", device);
    backward(y, dy);
    backward(y2, dy);
    auto close = [](const Numbers& a, const Numbers& b) {
      return largest_difference(a, b) <= 2 * 34 * 0x1p-53 * 34;
    };
    INFO(layer.x << ' ' << out << ' ' << layer.elements());
    CHECK(y.shape() == y2.shape());
    CHECK(close(to_host(y), to_host(y2)));
    CHECK(close(to_host(gradient(x)), to_host(gradient(x2))));
    CHECK(close(to_host(gradient(bias)), to_host(gradient(bias2))));
    Numbers all = to_host(gradient(weight)), kept;
    for (std::int32_t i : layer.index) kept.push_back(all[i]);
    CHECK(close(to_host(gradient(values)), kept));
  }
}

TEST_CASE("sparse linear: a weight without elements leaves the bias", "[sparse]") {
  DevicePtr device = cpu_device();
  SparseWeight weight(integers({}, {0}, device), 2, 3);
  Tensor x = variable(full({1, 3}, 1, DType::f32, device));
  Tensor values = variable(empty({0}, DType::f32, device));
  Tensor y = sparse_linear(x, weight, values, floats({5, 6}, {2}, device));
  CHECK(to_host(y) == Numbers{5, 6});
  backward(y, full({1, 2}, 1, DType::f32, device));
  CHECK(to_host(gradient(x)) == Numbers{0, 0, 0});
  CHECK(gradient(values).numel() == 0);
}

TEST_CASE("sparse linear: bf16 values have a gradient in f32", "[sparse]") {
  DevicePtr device = cpu_device();
  SparseWeight weight(integers({0}, {1}, device), 1, 1);
  Tensor values = variable(full({1}, 1, DType::bf16, device));
  Tensor y = sparse_linear(full({600, 1}, 1, DType::bf16, device), weight, values);
  backward(y, full({600, 1}, 1, DType::bf16, device));
  CHECK(gradient(values).dtype() == DType::f32);
  CHECK(item(gradient(values)) == 600);  // not a bf16 number
}

TEST_CASE("sparse linear: a device whose memory the host can't touch", "[sparse]") {
  OpCase op = op_case(layers()[4], true);
  for (DType dtype : {DType::f32, DType::bf16}) {
    bool same = run_op(op, dtype, guarded_device()) == run_op(op, dtype, cpu_device());
    CHECK(same);
  }
}

TEST_CASE("sparse linear: what does not fit is refused", "[sparse]") {
  DevicePtr device = cpu_device();
  auto of = [&](Shape shape, DType dtype = DType::f32) {
    return zeros(std::move(shape), dtype, device);
  };
  SparseWeight weight(integers({0, 4}, {2}, device), 2, 3);
  CHECK_THROWS_WITH(sparse_linear(of({2, 4}), weight, of({2})),
                    "sparse_linear: x is (2,4), the weight (2,3); expected x (...,3)");
  CHECK_THROWS_WITH(sparse_linear(of({2, 3}), weight, of({3})),
                    "sparse_linear: the values are f32 (3); expected f32 (2)");
  CHECK_THROWS_WITH(sparse_linear(of({2, 3}), weight, of({2}, DType::bf16)),
                    Contains("the values are bf16 (2)"));
  CHECK_THROWS_WITH(sparse_linear(of({2, 3}), weight, of({2}), of({3})), Contains("the bias is"));
}
