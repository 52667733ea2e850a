// Where a training step's time goes: each operation of the larger GPT by itself, against the two
// limits of the machine measured in the same run: its matrix-product rate and its copy bandwidth.
// Not here: the step as a whole (tests/benchmarks/train_step.cpp).
// Chapter 03; Williams, Waterman and Patterson 2009, "Roofline".
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/run_report.h"

namespace {

using namespace paragrad::autograd;

/// Median time of a few runs, in seconds.
double time_of(const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    auto start = std::chrono::steady_clock::now();
    run();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// An operation of the step: how often it runs, and the least that it must compute and move.
struct Row {
  std::string name;
  int count;            ///< in a step
  double flops, bytes;  ///< of one run
  std::function<void()> run;
};

std::vector<Row> operations(const DevicePtr& device) {
  constexpr std::int64_t layers = 6, heads = 6, c = 384, t = 256, b = 8, v = 65, n = b * t;
  constexpr std::int64_t p = layers * (12 * c * c + 13 * c) + (v + t + 2) * c;
  constexpr double f = 4;  // bytes of a value
  auto make = [&](Shape shape) { return full(std::move(shape), 0.01, DType::f32, device); };
  Backend* k = &device->backend();
  Tensor x = make({n, c}), y = make({n, c}), w = make({c}), s = make({n}), r = make({n});
  Tensor wide = make({n, 4 * c}), wide2 = make({n, 4 * c}), w4 = make({4 * c}), dw4 = make({4 * c});
  Tensor qkv = make({b, t, 3 * c}), dqkv = make({b, t, 3 * c}), a = make({b, t, c});
  Tensor z = make({b, heads, t}), da = make({b, t, c}), dw = make({c}), db = make({c});
  Tensor g = make({p}), m = make({p}), u = make({p}), master = make({p});
  Tensor logits = make({n, v});
  Tensor targets = from_host(std::vector<std::int32_t>(n, 3), {n}, device);

  std::vector<Row> rows;
  auto product = [&](const std::string& name, std::int64_t in, std::int64_t out, int count) {
    Tensor i = make({1, n, in}), o = make({1, n, out}), weight = make({1, out, in});
    double flops = 2.0 * n * in * out, bytes = f * (n * in + n * out + in * out);
    rows.push_back({name + ": y = x W^T", count, flops, bytes, [=] {
                      k->gemm({false, true}, i, weight, {}, o);
                    }});
    rows.push_back({name + ": dx = dy W", count, flops, bytes, [=] {
                      k->gemm({false, false}, o, weight, {}, i);
                    }});
    rows.push_back({name + ": dW = dy^T x", count, flops, bytes, [=] {
                      k->gemm({true, false}, o, i, {}, weight);
                    }});
  };
  product("qkv", c, 3 * c, layers);
  product("projection", c, c, layers);
  product("up", c, 4 * c, layers);
  product("down", 4 * c, c, layers);
  // Causal: half of two products of T x T, and of five on the way back.
  rows.push_back({"attention", layers, 2.0 * n * t * c, f * 4 * n * c,
                  [=] { k->attention(qkv, heads, a, z); }});
  rows.push_back({"attention, backward", layers, 5.0 * n * t * c, f * 8 * n * c,
                  [=] { k->attention_backward(qkv, heads, a, z, da, dqkv); }});
  rows.push_back({"layer norm", 2 * layers + 1, 8.0 * n * c, f * 2 * n * c,
                  [=] { k->layer_norm(x, w, w, 1e-5, y, s, r); }});
  rows.push_back({"layer norm, backward", 2 * layers + 1, 14.0 * n * c, f * 3 * n * c,
                  [=] { k->layer_norm_backward(x, w, s, r, y, {}, y, dw, db); }});
  rows.push_back({"bias and GELU", layers, 4 * 20.0 * n * c, f * 8 * n * c,
                  [=] { k->bias_gelu(wide, w4, wide2); }});
  rows.push_back({"bias and GELU, backward", layers, 4 * 30.0 * n * c, f * 12 * n * c,
                  [=] { k->bias_gelu_backward(wide, w4, wide2, wide2, dw4); }});
  rows.push_back({"sum with the residual", 4 * layers, 1.0 * n * c, f * 3 * n * c,
                  [=] { k->binary(Binary::add, x, y, y); }});
  rows.push_back({"cross-entropy and back", 1, 10.0 * n * v, f * 2 * n * v,
                  [=] { k->cross_entropy(logits, targets, v, 1, s, logits); }});
  rows.push_back({"weights' gradients into the flat buffer", 1, 1.0 * p, f * 3 * p,
                  [=] { k->accumulate(g, m); }});
  const Segments all{{0, p}};
  rows.push_back(
      {"AdamW", 1, 14.0 * p, f * 7 * p, [=] { k->adamw({}, all, g, m, u, master, master); }});
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Time of each operation of a GPT's training step (6 layers, width 384, 8 x 256 tokens)");
  CLI11_PARSE(app, argc, argv);
  DevicePtr device = cpu_device();
  Tensor big = full({1 << 25}, 1, DType::f32, device), copy = empty_like(big);
  double rate = paragrad::parallel::matmul_rate(device);
  double bandwidth = 2.0 * big.bytes() / time_of([&] { device->backend().copy(big, copy); });
  fmt::print("Matrix products: {:.0f} GFLOP/s. Copying: {:.1f} GB/s, read and written.\n\n",
             rate / 1e9, bandwidth / 1e9);
  fmt::print(
      "| operation | runs | ms each | ms a step | GFLOP/s | GB/s | of the limit |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  double total = 0;
  for (const Row& row : operations(device)) {
    double seconds = time_of(row.run), limit = std::max(row.flops / rate, row.bytes / bandwidth);
    total += row.count * seconds;
    fmt::print("| {} | {} | {:.2f} | {:.1f} | {:.0f} | {:.1f} | {:.0f}% |\n", row.name, row.count,
               1e3 * seconds, 1e3 * row.count * seconds, row.flops / seconds / 1e9,
               row.bytes / seconds / 1e9, 100 * limit / seconds);
  }
  fmt::print("\nAll together: {:.1f} ms.\n", 1e3 * total);
}
