// Products of a pruned square layer on one core: dense ones, with explicit zeros, against those
// that visit only what is left. In turn, so that each meets the machine's quiet moments.
// Not here: whether they are right (tests/sparse/sparse_matmul_test.cpp).
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "sparse/samo.h"

namespace {

using namespace plangrad::sparse;

/// The shortest time of something on its one core, without what other programs took of it.
struct Best {
  double seconds = 1e9;

  void run(const std::function<void()>& what) {
    double start = now();
    what();
    seconds = std::min(seconds, now() - start);
  }
  static double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
};

/// One layer (size,size) and its activations (vectors,size).
struct Layer {
  Tensor x, dy, y, dx, weight, dweight;

  Layer(std::int64_t size, std::int64_t vectors, DType dtype, const DevicePtr& device) {
    auto make = [&](Shape shape, DType type) {
      Tensor t = empty(shape, type, device);
      device->backend().fill_uniform(RandomKey(1, "values"), -1, 1, t);
      return t;
    };
    x = make({1, vectors, size}, dtype);
    dy = make({1, vectors, size}, dtype);
    y = make({1, vectors, size}, dtype);
    dx = make({1, vectors, size}, dtype);
    weight = make({1, size, size}, dtype);
    dweight = make({1, size, size}, gradient_dtype(dtype));
  }
};

/// Times of the three products of a layer: y = x W^T, dx = dy W, dW = dy^T x.
using Times = std::array<Best, 3>;

void run_dense(const Layer& l, Times& times) {
  Backend& k = l.x.backend();
  times[0].run([&] { k.gemm({false, true}, l.x, l.weight, {}, l.y); });
  times[1].run([&] { k.gemm({false, false}, l.dy, l.weight, {}, l.dx); });
  times[2].run([&] { k.gemm({true, false}, l.dy, l.x, {}, l.dweight); });
}

/// A weight of which some elements are left.
struct Pruned {
  SparseWeight weight;
  Tensor values, gradient;
  Times times;
};

Pruned prune(const Layer& l, double kept) {
  std::int64_t size = l.weight.size(1);
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < size * size; ++i)
    if (uniform(RandomKey(1, "mask"), i) < kept) index.push_back(static_cast<std::int32_t>(i));
  std::int64_t count = static_cast<std::int64_t>(index.size());
  const DevicePtr& device = l.x.device();
  return {SparseWeight(from_host(index, {count}, device), size, size),
          full({count}, 0.5, l.x.dtype(), device),
          empty({count}, l.dweight.dtype(), device),
          {}};
}

void run_sparse(const Layer& l, Pruned& p) {
  Backend& k = l.x.backend();
  auto flat = [](const Tensor& t) { return t.window(0, {t.size(1), t.size(2)}); };
  p.times[0].run([&] { k.spmm(p.weight.pattern, p.values, flat(l.x), {}, flat(l.y)); });
  p.times[1].run([&] { k.spmm(p.weight.transposed, p.values, flat(l.dy), {}, flat(l.dx)); });
  p.times[2].run([&] { k.sddmm(p.weight.pattern, flat(l.dy), flat(l.x), p.gradient); });
}

void print_rows(std::int64_t size, std::int64_t vectors, DType dtype, int rounds) {
  DevicePtr device = cpu_device();
  Layer layer(size, vectors, dtype, device);
  Times dense;
  std::vector<double> pruned{0.5, 0.8, 0.9, 0.95, 0.99};
  std::vector<Pruned> sparse;
  for (double p : pruned) sparse.push_back(prune(layer, 1 - p));
  for (int round = 0; round < rounds; ++round) {
    run_dense(layer, dense);
    for (Pruned& p : sparse) run_sparse(layer, p);
  }
  auto all = [](const Times& t) { return t[0].seconds + t[1].seconds + t[2].seconds; };
  for (std::size_t i = 0; i < pruned.size(); ++i) {
    const Times& t = sparse[i].times;
    double flops = 2.0 * static_cast<double>(sparse[i].values.numel()) * vectors;
    double all_dense = 2.0 * size * size * vectors;
    fmt::print("| {} | {} | {:.0f}% |", size, name_of(dtype), 100 * pruned[i]);
    for (int product = 0; product < 3; ++product)
      fmt::print(" {:.2f} | {:.0f}% |", dense[product].seconds / t[product].seconds,
                 100 * flops / t[product].seconds / (all_dense / dense[product].seconds));
    fmt::print(" {:.2f} |\n", all(dense) / all(t));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Products with a pruned layer on one core: sparse ones against dense ones");
  std::int64_t vectors = 512;
  int rounds = 15;
  std::vector<std::int64_t> sizes{128, 512, 1024, 2048, 4096};
  app.add_option("--vectors", vectors, "rows of the activations")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "runs, of which the fastest counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--sizes", sizes, "inputs and outputs of the layer")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  set_compute_threads(1);
  fmt::print(
      "A layer of n inputs and n outputs, {} vectors, one core. Each product: how much faster than "
      "the dense one,\n"
      "and the share of the dense one's multiply-adds per second that it reaches.\n\n"
      "| n | type | pruned | y = x W^T | rate | dx = dy W | rate | dW = dy^T x | rate | all three "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      vectors);
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t size : sizes) print_rows(size, vectors, dtype, rounds);
}
