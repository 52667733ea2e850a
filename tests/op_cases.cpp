#include "tests/op_cases.h"

#include <algorithm>
#include <cmath>

#include "autograd/backend.h"
#include "autograd/ops.h"

namespace paragrad::tests {

namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

Tensor ids(const Tensor& beside, const std::vector<std::int32_t>& values, Shape shape) {
  return from_host(values, std::move(shape), beside.device());
}

/// One operation on two tensors; `terms` is the same with nothing that cancels.
void add_binary(Cases& cases, const char* name, Tensor (*op)(const Tensor&, const Tensor&),
                Tensor (*terms)(const Tensor&, const Tensor&), double lowest = -1) {
  const std::pair<Shape, Shape> shapes[] = {
      {{}, {}},           {{1}, {1}},      {{33}, {33}},     {{129}, {1}},
      {{1}, {7}},         {{4, 33}, {33}}, {{7}, {3, 7}},    {{2, 1, 5}, {3, 1}},
      {{7, 129}, {7, 1}}, {{2, 3, 5}, {}}, {{1, 5}, {5, 1}}, {{3, 1, 1}, {1, 1, 4}}};
  for (const auto& [a, b] : shapes) {
    double stretched = broadcast(a, b).numel() / std::min(a.numel(), b.numel());
    cases.push_back({text(name, a, b),
                     {{a}, {b, lowest}},
                     [op](const Inputs& x) { return op(x[0], x[1]); },
                     stretched + 4,
                     0,
                     [terms](const Inputs& x) { return terms(x[0], x[1]); }});
  }
}

void add_unary(Cases& cases, const char* name, Tensor (*op)(const Tensor&), double low = -3) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 11}, Shape{129}})
    cases.push_back(
        {text(name, shape), {{shape, low, 3}}, [op](const Inputs& x) { return op(x[0]); }, 12, 1});
}

Cases arithmetic() {
  Cases cases;
  add_binary(cases, "add", add, add);
  add_binary(cases, "subtract", subtract, add);
  add_binary(cases, "multiply", multiply, multiply);
  add_binary(cases, "divide", divide, divide, 0.5);
  add_unary(cases, "negate", negate);
  add_unary(cases, "exp", exp);
  add_unary(cases, "log", log, 0.2);
  add_unary(cases, "sqrt", sqrt, 0.2);
  add_unary(cases, "tanh", tanh);
  add_unary(cases, "relu", relu);
  add_unary(cases, "gelu", gelu);
  add_unary(cases, "affine", [](const Tensor& x) { return affine(x, -1.5, 0.25); });
  add_unary(cases, "dropout",
            [](const Tensor& x) { return dropout(x, 0.25, RandomKey(1, "dropout")); });
  for (std::int64_t width : {1, 7, 33, 129})
    cases.push_back({text("bias_gelu ", width),
                     {{{3, width}, -3, 3}, {{width}}},
                     [](const Inputs& x) { return bias_gelu(x[0], x[1]); },
                     16,
                     1});
  return cases;
}

Cases reduce() {
  Cases cases;
  Shape cube{2, 3, 33};
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{0}, {1}, {-1}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {}}) {
    std::string name;
    for (int axis : axes) name += text(' ', axis);
    cases.push_back(
        {"sum" + name, {{cube}}, [axes](const Inputs& x) { return sum(x[0], axes); }, 500});
    cases.push_back(
        {"mean" + name, {{cube}}, [axes](const Inputs& x) { return mean(x[0], axes); }, 500});
    cases.push_back(
        {"max" + name, {{cube}}, [axes](const Inputs& x) { return max(x[0], axes); }, 2, 1});
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{129}, Shape{7, 1, 2}}) {
    cases.push_back(
        {text("sum ", shape), {{shape}}, [](const Inputs& x) { return sum(x[0]); }, 130});
    cases.push_back(
        {text("mean ", shape), {{shape}}, [](const Inputs& x) { return mean(x[0]); }, 130});
  }
  for (const Shape& to : {Shape{33}, Shape{3, 1}, Shape{2, 1, 33}, Shape{1, 1}, Shape{}})
    cases.push_back(
        {text("sum_to ", to), {{cube}}, [to](const Inputs& x) { return sum_to(x[0], to); }, 500});
  return cases;
}

Cases layout() {
  Cases cases;
  auto add_case = [&](const std::string& name, std::vector<OpInput> inputs, OpFunction f) {
    cases.push_back({name, std::move(inputs), std::move(f)});
  };
  Shape cube{2, 3, 5};
  add_case("reshape", {{cube}}, [](const Inputs& x) { return reshape(x[0], {3, -1}); });
  for (std::vector<int> order{0, 1, 2};;) {
    add_case(text("permute ", order[0], order[1], order[2]), {{cube}},
             [order](const Inputs& x) { return permute(x[0], order); });
    if (!std::next_permutation(order.begin(), order.end())) break;
  }
  add_case("transpose", {{{17, 33}}}, [](const Inputs& x) { return transpose(x[0]); });
  add_case("transpose 0 -1", {{{2, 3, 1, 7}}},
           [](const Inputs& x) { return transpose(x[0], 0, -1); });
  for (int axis : {0, 1, 2, -1})
    for (int first : {0, 1})
      add_case(text("slice ", axis, ' ', first), {{cube}},
               [=](const Inputs& x) { return slice(x[0], axis, first, 2); });
  add_case("slice of one", {{{1, 7}}}, [](const Inputs& x) { return slice(x[0], 1, 6, 7); });
  for (int axis : {0, 1, -1}) {
    Shape other = cube.with(axis, 7);
    add_case(text("concatenate ", axis), {{cube}, {other}, {cube}},
             [axis](const Inputs& x) { return concatenate(x, axis); });
  }
  return cases;
}

Cases matmul_cases() {
  Cases cases;
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 7, 5}, {33, 1, 9}, {1, 65, 2}, {3, 2, 33}};
  for (auto [m, k, n] : sizes)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        cases.push_back({text("matmul ", m, ' ', k, ' ', n, ta ? " T" : "", tb ? " T'" : ""),
                         {{ta ? Shape{k, m} : Shape{m, k}}, {tb ? Shape{n, k} : Shape{k, n}}},
                         [=](const Inputs& x) {
                           return matmul(x[0], x[1], {ta, tb});
                         },
                         130});
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      cases.push_back({text("batch", ta ? " T" : "", tb ? " T'" : ""),
                       {{ta ? Shape{2, 2, 3, 4} : Shape{2, 2, 4, 3}},
                        {tb ? Shape{2, 2, 5, 3} : Shape{2, 2, 3, 5}}},
                       [=](const Inputs& x) {
                         return matmul(x[0], x[1], {ta, tb});
                       },
                       64});
  for (bool tb : {false, true})
    cases.push_back({text("one matrix for a batch", tb ? " T'" : ""),
                     {{{2, 3, 5, 4}}, {tb ? Shape{7, 4} : Shape{4, 7}}},
                     [=](const Inputs& x) {
                       return matmul(x[0], x[1], {false, tb});
                     },
                     64});
  for (const Shape& x : {Shape{7}, Shape{1, 7}, Shape{17, 7}, Shape{2, 3, 7}, Shape{1, 33}})
    for (std::int64_t out : {1, 9}) {
      Shape weight{out, x[-1]};
      cases.push_back({text("linear ", x, weight),
                       {{x}, {weight}, {{out}}},
                       [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
                       130});
      cases.push_back({text("linear ", x, weight, " without bias"),
                       {{x}, {weight}},
                       [](const Inputs& x) { return linear(x[0], x[1]); },
                       130});
    }
  return cases;
}

Cases rows() {
  Cases cases;
  for (std::int64_t width : {1, 7, 33, 129}) {
    Shape shape{2, 3, width};
    cases.push_back({text("softmax ", width),
                     {{shape, -3, 3}},
                     [](const Inputs& x) { return softmax(x[0]); },
                     width + 16.0,
                     1});
    // For the bound: 1 / deviation is below 4 for these values, and multiplies differences below 2.
    cases.push_back({text("layer_norm ", width),
                     {{shape}, {{width}}, {{width}}},
                     [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); },
                     2 * width + 16.0,
                     8});
    std::int32_t last = static_cast<std::int32_t>(width) - 1;
    cases.push_back(
        {text("cross_entropy ", width),
         {{shape, -3, 3}},
         [last](const Inputs& x) {
           return cross_entropy(x[0], ids(x[0], {last, 0, last / 2, 0, last, 0}, {2, 3}));
         },
         width + 16.0,
         3 + std::log(width)});
    cases.push_back({text("embedding ", width), {{{5, width}}}, [](const Inputs& x) {
                       return embedding(x[0], ids(x[0], {4, 0, 4, 1, 4, 0, 3}, {7}));
                     }});
  }
  return cases;
}

Cases attention_cases() {
  struct Size {
    std::int64_t batch, time, width;
    int heads;
  };
  Cases cases;
  for (Size s : {Size{1, 1, 1, 1},
                 {2, 7, 6, 2},
                 {3, 1, 4, 4},
                 {1, 33, 5, 1},
                 {1, 3, 33, 1},
                 {2, 65, 4, 2},
                 {1, 129, 34, 2}})
    cases.push_back({text("attention ", s.batch, ' ', s.time, ' ', s.width, ' ', s.heads),
                     {{{s.batch, s.time, 3 * s.width}}},
                     [s](const Inputs& x) { return attention(x[0], s.heads); },
                     s.time + s.width + 16.0,
                     4 + 4 * std::sqrt(s.width / s.heads)});
  return cases;
}

Cases image() {
  Cases cases;
  cases.push_back({"conv2d",
                   {{{2, 3, 7, 5}}, {{4, 3, 3, 3}}},
                   [](const Inputs& x) { return conv2d(x[0], x[1], 2, 1); },
                   64});
  cases.push_back(
      {"max_pool2d", {{{2, 3, 7, 5}}}, [](const Inputs& x) { return max_pool2d(x[0], 3, 2, 1); }});
  cases.push_back({"average_pool2d",
                   {{{2, 3, 7, 5}}},
                   [](const Inputs& x) { return average_pool2d(x[0], 3, 2, 1); },
                   16});
  for (bool training : {true, false})
    cases.push_back({text("batch_norm ", training ? "training" : "inference"),
                     {{{2, 3, 7, 5}}, {{3}}, {{3}}},
                     [training](const Inputs& x) {
                       DType dtype = gradient_dtype(x[0].dtype());
                       RunningStatistics running{zeros({3}, dtype, x[0].device()),
                                                 full({3}, 2, dtype, x[0].device())};
                       return batch_norm(x[0], x[1], x[2], running, training);
                     },
                     150,
                     8});
  return cases;
}

}  // namespace

std::vector<OpCase> op_cases(const std::string& file) {
  if (file == "arithmetic") return arithmetic();
  if (file == "attention") return attention_cases();
  if (file == "image") return image();
  if (file == "layout") return layout();
  if (file == "matmul") return matmul_cases();
  if (file == "reduce") return reduce();
  if (file == "rows") return rows();
  throw Error("op_cases: no cases for " + file);
}

}  // namespace paragrad::tests
