// A list for each file of autograd/ops. The numbers after a function bound its rounding errors.
// Not here: the checks (tests/op_checks.cpp).
#include "tests/op_cases.h"

#include <algorithm>

#include "autograd/backend.h"
#include "autograd/ops.h"

namespace plangrad::tests {

namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

Tensor ids(const Tensor& beside, const std::vector<std::int32_t>& values, Shape shape) {
  return from_host(values, std::move(shape), beside.device());
}

/// One operation on two tensors; `terms` is the same with nothing that cancels.
void add_binary(Cases& cases, const char* name, Tensor (*op)(const Tensor&, const Tensor&),
                Tensor (*terms)(const Tensor&, const Tensor&), double lowest = -1,
                double stored = 0) {
  const std::pair<Shape, Shape> shapes[] = {
      {{}, {}},           {{1}, {1}},      {{33}, {33}},     {{129}, {1}},
      {{1}, {7}},         {{4, 33}, {33}}, {{7}, {3, 7}},    {{2, 1, 5}, {3, 1}},
      {{7, 129}, {7, 1}}, {{2, 3, 5}, {}}, {{1, 5}, {5, 1}}, {{3, 1, 1}, {1, 1, 4}}};
  for (const auto& [a, b] : shapes) {
    double stretched = broadcast(a, b).numel() / std::min(a.numel(), b.numel());
    cases.push_back({text(name, a, b),
                     {{a}, {b, lowest}},
                     [op](const Inputs& x) { return op(x[0], x[1]); },
                     {2},
                     {stretched + 4, 0, false, stored},
                     [terms](const Inputs& x) { return terms(x[0], x[1]); }});
  }
}

void add_unary(Cases& cases, const char* name, Tensor (*op)(const Tensor&), double low = -3,
               Rounding gradient = {12, 1}) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 11}, Shape{129}})
    cases.push_back({text(name, shape),
                     {{shape, low, 3}},
                     [op](const Inputs& x) { return op(x[0]); },
                     {12, 1},
                     gradient});
}

Cases arithmetic() {
  Cases cases;
  add_binary(cases, "add", add, add);
  add_binary(cases, "subtract", subtract, add);
  // Gradients to be summed are stored first; divide's second is a product of stored quotients.
  add_binary(cases, "multiply", multiply, multiply, -1, 1);
  add_binary(cases, "divide", divide, divide, 0.5, 3);
  add_unary(cases, "negate", negate);
  // The slopes of exp, sqrt and tanh are computed from the stored result y; tanh's, 1 - y^2, is
  // off by twice the rounding of y.
  add_unary(cases, "exp", exp, -3, {12, 0, false, 1});
  add_unary(cases, "log", log, 0.2);
  add_unary(cases, "sqrt", sqrt, 0.2, {12, 0, true, 1});
  add_unary(cases, "tanh", tanh, -3, {12, 2, true, 1});
  // A single value below zero would show nothing of relu: the first to be drawn is above.
  add_unary(cases, "relu", relu, -0.5, exactly);
  add_unary(cases, "gelu", gelu);
  add_unary(cases, "affine", [](const Tensor& x) { return affine(x, -1.5, 0.25); });
  add_unary(cases, "dropout",
            [](const Tensor& x) { return dropout(x, 0.25, RandomKey(1, "dropout")); });
  for (std::int64_t width : {1, 7, 33, 129})
    cases.push_back({text("bias_gelu ", width),
                     {{{3, width}, -3, 3}, {{width}}},
                     [](const Inputs& x) { return bias_gelu(x[0], x[1]); },
                     {16, 1},
                     {16, 1}});
  return cases;
}

Cases reduce() {
  Cases cases;
  // Mostly positive values: a sum in which all cancels would hide errors in proportion to it.
  auto add_sum = [&](const std::string& name, const Shape& shape, OpFunction f, bool mean = false) {
    double count = static_cast<double>(shape.numel());
    Rounding gradient = mean ? Rounding{3, 0, true} : exactly;
    cases.push_back(
        {name, {{shape, -0.25, 1}}, f, {count + 2, 0, false, mean ? 1.0 : 0}, gradient});
  };
  Shape cube{2, 3, 33};
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{0}, {1}, {-1}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {}}) {
    std::string name;
    for (int axis : axes) name += text(' ', axis);
    add_sum("sum" + name, cube, [axes](const Inputs& x) { return sum(x[0], axes); });
    add_sum(
        "mean" + name, cube, [axes](const Inputs& x) { return mean(x[0], axes); }, true);
    // Equal maxima share the gradient, by a quotient that is stored.
    cases.push_back({"max" + name,
                     {{cube}},
                     [axes](const Inputs& x) { return max(x[0], axes); },
                     exactly,
                     {2, 0, true, 1}});
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{129}, Shape{7, 1, 2}}) {
    add_sum(text("sum ", shape), shape, [](const Inputs& x) { return sum(x[0]); });
    add_sum(
        text("mean ", shape), shape, [](const Inputs& x) { return mean(x[0]); }, true);
  }
  for (const Shape& to : {Shape{33}, Shape{3, 1}, Shape{2, 1, 33}, Shape{1, 1}, Shape{}})
    add_sum(text("sum_to ", to), cube, [to](const Inputs& x) { return sum_to(x[0], to); });
  return cases;
}

Cases layout() {
  Cases cases;
  auto add_case = [&](const std::string& name, std::vector<OpInput> inputs, OpFunction f) {
    cases.push_back({name, std::move(inputs), std::move(f), exactly, exactly});
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
  constexpr double low = -0.25;  // as in reduce(), so that products do not cancel
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 7, 5}, {33, 1, 9}, {1, 65, 2}, {3, 2, 33}};
  for (auto [m, k, n] : sizes)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        cases.push_back(
            {text("matmul ", m, ' ', k, ' ', n, ta ? " T" : "", tb ? " T'" : ""),
             {{ta ? Shape{k, m} : Shape{m, k}, low}, {tb ? Shape{n, k} : Shape{k, n}, low}},
             [=](const Inputs& x) {
               return matmul(x[0], x[1], {ta, tb});
             },
             {k + 2.0},
             {std::max(m, n) + 2.0}});
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      cases.push_back({text("batch", ta ? " T" : "", tb ? " T'" : ""),
                       {{ta ? Shape{2, 2, 3, 4} : Shape{2, 2, 4, 3}, low},
                        {tb ? Shape{2, 2, 5, 3} : Shape{2, 2, 3, 5}, low}},
                       [=](const Inputs& x) {
                         return matmul(x[0], x[1], {ta, tb});
                       },
                       {5},
                       {7}});
  for (bool tb : {false, true})
    cases.push_back({text("one matrix for a batch", tb ? " T'" : ""),
                     {{{2, 3, 5, 4}, low}, {tb ? Shape{7, 4} : Shape{4, 7}, low}},
                     [=](const Inputs& x) {
                       return matmul(x[0], x[1], {false, tb});
                     },
                     {6},
                     {32}});
  for (const Shape& x : {Shape{7}, Shape{1, 7}, Shape{17, 7}, Shape{2, 3, 7}, Shape{1, 33}})
    for (std::int64_t out : {1, 9}) {
      Shape weight{out, x[-1]};
      Rounding sums{x[-1] + 3.0}, gradient{std::max(x.numel() / x[-1], out) + 2.0};
      cases.push_back({text("linear ", x, weight),
                       {{x, low}, {weight, low}, {{out}, low}},
                       [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
                       sums,
                       gradient});
      cases.push_back({text("linear ", x, weight, " without bias"),
                       {{x, low}, {weight, low}},
                       [](const Inputs& x) { return linear(x[0], x[1]); },
                       sums,
                       gradient});
    }
  return cases;
}

}  // namespace

// In the gradient, terms are those of p - [c == target], all taken as positive. Logits are below 2.
OpCase linear_cross_entropy_case(const Shape& x, std::int64_t classes, OpIds targets) {
  const double rows = static_cast<double>(x.numel() / x[-1]);
  const double in = static_cast<double>(x[-1]), chain = in + 2.0 * classes + 20;
  const double most = std::sqrt(2 / in);
  return {text("linear_cross_entropy ", x, ' ', classes),
          {{x, 0, most}, {{classes, x[-1]}, 0, most}},
          [=](const Inputs& x) { return linear_cross_entropy(x[0], x[1], targets(x[0])); },
          {chain, 4, false, 2},
          {chain + rows, 0, false, 6},
          [=](const Inputs& x) {
            const Tensor of_target = sum(x[0] * embedding(x[1], targets(x[0])));
            return linear_cross_entropy(x[0], x[1], targets(x[0])) + (2 / rows) * of_target;
          }};
}

namespace {

Cases rows() {
  Cases cases;
  for (std::int64_t width : {1, 7, 33, 129}) {
    Shape shape{2, 3, width};
    cases.push_back({text("softmax ", width),
                     {{shape, -3, 3}},
                     [](const Inputs& x) { return softmax(x[0]); },
                     {width + 24.0, 0, true},
                     {width + 16.0, 3, true, 1}});  // y (dy - sum y dy), from the stored y
    // 1 / deviation is below 4 for these values, and below 2 in long rows; it multiplies the error
    // of a mean of values below 1, one value's being none, and in gradients differences below 2.
    double inverse = width == 1 ? 0 : width < 10 ? 4 : 2;
    cases.push_back({text("layer_norm ", width),
                     {{shape}, {{width}}, {{width}}},
                     [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); },
                     {width + 8.0, inverse},
                     {2 * width + 16.0, 8}});
    // In bf16, a stored sum is off by 2^-9 of at most 2; that moves a normalised value, which is
    // below 2.5, by 4.5 2^-8 inverse. Gradients multiply that by sums that are below 2 each.
    cases.push_back({text("add_layer_norm ", width),
                     {{shape}, {shape}, {{width}}, {{width}}},
                     [](const Inputs& x) {
                       auto [sum, norm] = add_layer_norm(x[0], x[1], x[2], x[3]);
                       return concatenate({norm, sum}, 0);
                     },
                     {width + 9.0, inverse, false, 5},
                     {2 * width + 24.0, 8, false, 9}});
    cases.push_back({text("x + layer_norm ", width),
                     {{shape}, {{width}}, {{width}}},
                     [](const Inputs& x) { return x[0] + layer_norm(x[0], x[1], x[2]); },
                     {width + 9.0, inverse, false, 1},
                     {2 * width + 24.0, 8, false, 1}});
    std::int32_t last = static_cast<std::int32_t>(width) - 1;
    cases.push_back(
        {text("cross_entropy ", width),
         {{shape, -3, 3}},
         [last](const Inputs& x) {
           return cross_entropy(x[0], ids(x[0], {last, 0, last / 2, 0, last, 0}, {2, 3}));
         },
         {width + 16.0, 3},
         {width + 16.0, 1, false, 1}});  // stored, and then multiplied by dy
    cases.push_back(linear_cross_entropy_case({2, 3, 6}, width, [last](const Tensor& x) {
      return ids(x, {last, 0, last / 2, 0, last, 0}, {2, 3});
    }));
    cases.push_back({text("embedding ", width),
                     {{{5, width}}},
                     [](const Inputs& x) {
                       return embedding(x[0], ids(x[0], {4, 0, 4, 1, 4, 0, 3}, {7}));
                     },
                     exactly,
                     {4}});
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
                 {1, 97, 3, 1},
                 {1, 129, 34, 2}}) {
    double time = static_cast<double>(s.time), size = static_cast<double>(s.width / s.heads);
    // Shares add up to 1, and values are below 1. A score is a sum of `size` terms, together below
    // size / 2 for these values; its error, and that of the largest, are those of a share; two
    // sums over time follow. Shares pass through bf16 where a device multiplies bf16.
    Rounding result{2 * time + 12 + (size + 3) * std::sqrt(size), 1, true, time > 1 ? 1.0 : 0};
    // The sum over y dy reads a stored y, and keys add up to 1 + log(time) shares of such sums. A
    // single position's y is its value, unrounded.
    Rounding gradient{time + size + 16, std::sqrt(size) * (1 + std::log(time)), true,
                      time > 1 ? 1.0 : 0};
    cases.push_back({text("attention ", s.batch, ' ', s.time, ' ', s.width, ' ', s.heads),
                     {{{s.batch, s.time, 3 * s.width}}},
                     [s](const Inputs& x) { return attention(x[0], s.heads); },
                     result,
                     gradient});
  }
  return cases;
}

Cases image() {
  Cases cases;
  cases.push_back({"conv2d",
                   {{{2, 3, 7, 5}}, {{4, 3, 3, 3}}},
                   [](const Inputs& x) { return conv2d(x[0], x[1], 2, 1); },
                   {29},
                   {38}});
  cases.push_back({"max_pool2d",
                   {{{2, 3, 7, 5}}},
                   [](const Inputs& x) { return max_pool2d(x[0], 3, 2, 1); },
                   exactly,
                   {4, 4}});
  cases.push_back({"average_pool2d",
                   {{{2, 3, 7, 5}}},
                   [](const Inputs& x) { return average_pool2d(x[0], 3, 2, 1); },
                   {11, 0, false, 1},  // the sum is stored
                   {6, 0, false, 1}});
  for (bool training : {true, false})
    cases.push_back({text("batch_norm ", training ? "training" : "inference"),
                     {{{2, 3, 7, 5}}, {{3}}, {{3}}},
                     [training](const Inputs& x) {
                       DType dtype = gradient_dtype(x[0].dtype());
                       RunningStatistics running{zeros({3}, dtype, x[0].device()),
                                                 full({3}, 2, dtype, x[0].device())};
                       return batch_norm(x[0], x[1], x[2], running, training);
                     },
                     {80, 2},
                     {150, 8, false, training ? 0.0 : 2}});  // x's and dy's product is stored
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

}  // namespace plangrad::tests
