// Kernels of a Backend that compute more than they move: products, attention, sparse products.
// Not here: the others (kernel_rows.h). Chapter 12.
#pragma once

#include "tests/benchmarks/kernel_rows.h"

namespace plangrad::benchmarks {

inline std::vector<KernelRow> KernelRows::products() {
  const std::int64_t t = s.tokens, c = 3 * s.width / 4;  // GPT-2's 768
  Backend* const k = backend_;
  std::vector<KernelRow> list;
  auto product = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    const Tensor x = make({1, t, in}), y = make({1, t, out}), w = make({1, out, in});
    const Tensor dw = make({1, out, in}, gradient_dtype(dtype_));
    const double flops = 2.0 * static_cast<double>(t) * static_cast<double>(in * out);
    list.push_back({name + ", y = x W^T", 0, flops, [=] { k->gemm({false, true}, x, w, {}, y); }});
    list.push_back({name + ", dx = dy W", 0, flops, [=] { k->gemm({false, false}, y, w, {}, x); }});
    list.push_back({name + ", dW = dy^T x", 0, flops, [=] {
                      k->gemm({true, false}, y, x, {}, dw);
                    }});
    const Tensor b = make({out}), db = make({1, out}, gradient_dtype(dtype_));
    const Tensor dy_rows = y.window(0, {t, out});
    if (name == "head") return;  // it has no bias
    list.push_back({name + ", y = x W^T + b", 0, flops, [=] {
                      k->gemm({false, true}, x, w, b, y);
                    }});
    list.push_back({name + ", dW += dy^T x, and db", 0, flops, [=] {
                      k->gemm({true, false, true}, y, x, {}, dw);
                      k->reduce(Reduction::sum, dy_rows, db);
                    }});
  };
  product("qkv", c, 3 * c);
  product("projection", c, c);
  product("up", c, 4 * c);
  product("down", 4 * c, c);
  product("head", c, k->row_pitch(s.vocabulary));
  const std::int64_t channels = s.width / 8, side = 16, images = t / 64;
  const Tensor x = make({images, channels, side, side}), y = make(x.shape());
  const Tensor w = make({channels, channels, 3, 3});
  const Tensor dw = make(w.shape(), gradient_dtype(dtype_));
  const Window same{3, 3, 1, 1};
  const double flops = 2.0 * 9 * static_cast<double>(x.numel() * channels);
  list.push_back({"convolution 3 x 3", 0, flops, [=] { k->conv2d(x, w, same, y); }});
  list.push_back({"convolution, dx", 0, flops, [=] { k->conv2d_backward_input(y, w, same, x); }});
  list.push_back({"convolution, dW", 0, flops, [=] { k->conv2d_backward_weight(x, y, same, dw); }});
  return list;
}

/// Causal: half of two products of T x T, and of five on the way back.
inline std::vector<KernelRow> KernelRows::attention() {
  Backend* const k = backend_;
  std::vector<KernelRow> list;
  for (auto [times, size] : {std::pair(1, 64), {4, 128}}) {
    const int heads = static_cast<int>(s.width / 64);
    const std::int64_t t = times * s.time, b = s.tokens / t, c = heads * size;
    const Tensor qkv = make({b, t, 3 * c}), y = make({b, t, c}), dy = make({b, t, c});
    const Tensor dqkv = make({b, t, 3 * c}), z = statistics({b, heads, t});
    const double one = 2.0 * static_cast<double>(b * t) * static_cast<double>(t * c) / 2;
    const std::string name = text("attention, ", t, " positions, heads of ", size);
    k->attention(qkv, heads, y, z);
    list.push_back({name, 0, 2 * one, [=] { k->attention(qkv, heads, y, z); }});
    list.push_back({name + ", backward", 0, 5 * one,
                    [=] { k->attention_backward(qkv, heads, y, z, dy, dqkv); }});
  }
  return list;
}

/// Half the width of `product`, a tenth of the elements: against the product of the whole matrices.
inline std::vector<KernelRow> KernelRows::sparse_products() {
  const std::int64_t size = s.product / 2, elements = size * size / 10;
  const SparsePattern pattern =
      sparse::pattern_of(indices(elements, size * size, true), size, size);
  const Tensor values = make({elements}), b = make({size, size}), c = make({size, size});
  const Tensor sampled = make({elements}, gradient_dtype(dtype_));
  const Tensor whole = make({1, size, size});
  const double flops = 2.0 * static_cast<double>(elements * size);
  Backend* const k = backend_;
  auto dense = [=] { k->gemm({}, whole, whole, {}, c.window(0, whole.shape())); };
  return {
      {"sparse product of a tenth, rows", 0, flops, [=] { k->spmm(pattern, values, b, {}, c); },
       dense},
      {"sampled product of a tenth, rows", 0, flops, [=] { k->sddmm(pattern, b, c, sampled); },
       dense},
  };
}

}  // namespace plangrad::benchmarks
