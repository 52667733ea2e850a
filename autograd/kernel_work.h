// KernelWork: the least that a call of a kernel must compute and move, from its arguments' shapes;
// KernelTable: the calls of a stretch of work, by kind. Profiles and planners read the same ones.
// Not here: time (examples/profile), and who calls (autograd/blank). Chapter 03.
#pragma once

#include <map>
#include <tuple>

#include "autograd/backend.h"

namespace plangrad::autograd {

/// Sizes of the products of a kernel: `count` products of (m,k) and (k,n) matrices; none if m is 0.
struct Products {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  static auto fields(auto& x) { return std::tie(x.m, x.n, x.k, x.count); }
};

inline double bytes_of(const Tensor& x) { return x.defined() ? static_cast<double>(x.bytes()) : 0; }
inline double bytes_of(const SparsePattern& x) { return bytes_of(x.columns); }
inline double bytes_of(const auto&) { return 0; }

/// The least that a kernel must do.
struct KernelWork {
  std::string kind;          ///< such as "softmax" or "gemm NT 64x32x16"
  DType dtype = DType::f32;  ///< the type of what it multiplies
  double flops = 0;  ///< operations of products; a multiplication and an addition count as two
  double bytes = 0;  ///< bytes that it must read and write if caches hold nothing
  Products products = {};

  /// Adds that each of the tensors among these arguments is read or written once.
  KernelWork&& with(const auto&... arguments) && {
    ((bytes += bytes_of(arguments)), ...);
    return std::move(*this);
  }
};

/// Kernels that do more, or less, than read or write each of their tensors once. Products count
/// operations; bytes are those of tensors, and once more of those that are both read and written.
/// Operations of other kernels are left out: those wait for memory.
struct KernelWorks {
  using In = const Tensor&;
  using Out = const Tensor&;

  // ---- products
  static KernelWork gemm(Backend::Gemm how, In a, In b, In bias, Out c) {
    const std::int64_t k = a.size(how.transpose_a ? 1 : 2), count = c.size(0);
    const std::string sizes =
        text(count > 1 ? text(count, " x ") : "", c.size(1), 'x', c.size(2), 'x', k);
    return KernelWork{
        text("gemm ", how.transpose_a ? 'T' : 'N', how.transpose_b ? 'T' : 'N', ' ', sizes),
        a.dtype(),
        product_flops(c.numel(), k),
        how.add ? bytes_of(c) : 0,
        {c.size(1), c.size(2), k, count}}
        .with(a, b, bias, c);
  }
  static KernelWork spmm(const SparsePattern& pattern, In values, In b, In bias, Out c) {
    return KernelWork{"spmm", values.dtype(),
                      product_flops(pattern.elements(), c.numel() / pattern.rows())}
        .with(pattern, values, b, bias, c);
  }
  static KernelWork sddmm(const SparsePattern& pattern, In d, In b, Out values) {
    return KernelWork{"sddmm", d.dtype(),
                      product_flops(pattern.elements(), d.numel() / pattern.rows())}
        .with(pattern, d, b, values);
  }
  static KernelWork attention(In qkv, int heads, Out y, Out normalizer) {
    return attention_work("attention", qkv, heads, 2).with(qkv, y, normalizer);
  }
  static KernelWork attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
    return attention_work("attention_backward", qkv, heads, 4).with(qkv, y, normalizer, dy, dqkv);
  }
  static KernelWork conv2d(In x, In weight, Window window, Out y) {
    return convolution("conv2d", weight, window, x, y).with(x, weight, y);
  }
  static KernelWork conv2d_backward_input(In dy, In weight, Window window, Out dx) {
    return convolution("conv2d_backward_input", weight, window, dx, dy).with(dy, weight, dx);
  }
  static KernelWork conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
    return convolution("conv2d_backward_weight", dweight, window, x, dy).with(x, dy, dweight);
  }

  // ---- values that move
  static KernelWork gather(In, In index, bool add, Out y) {
    return {.kind = "gather", .bytes = bytes_of(index) + (add ? 3 : 2) * bytes_of(y)};
  }
  static KernelWork unary_backward(Unary, In, In, In, Out dx) {  // reads x or y
    return {.kind = "unary_backward", .bytes = 3 * bytes_of(dx)};
  }
  static KernelWork binary(Binary op, In a, In b, Out y) {
    static constexpr const char* names[] = {"add", "subtract", "multiply", "divide"};
    return KernelWork{text("binary ", names[static_cast<int>(op)])}.with(a, b, y);
  }
  static KernelWork scale_by(In factor, Out) {
    // The factor is 1 while a network trains, which costs no pass over x.
    return {.kind = "scale_by", .bytes = bytes_of(factor)};
  }
  static KernelWork accumulate(In x, Out y) { return KernelWork{"accumulate"}.with(x, y, y); }
  static KernelWork reduce(Reduction op, In x, Out y) {
    return KernelWork{op == Reduction::sum ? "reduce sum" : "reduce max"}.with(x, y);
  }
  static KernelWork sums_of_squares(const std::vector<Tensor>& tensors) {
    KernelWork work{"sum_of_squares"};
    for (const Tensor& x : tensors) work.bytes += bytes_of(x);
    return work;
  }
  static KernelWork layer_norm(In x, In a, In weight, In bias, double, Out sum, Out y, Out mean,
                               Out inverse) {
    return KernelWork{a.defined() ? "add_layer_norm" : "layer_norm"}.with(x, a, weight, bias, sum,
                                                                          y, mean, inverse);
  }
  static KernelWork embedding(In, In ids, Out y) {  // reads rows of the table
    return KernelWork{"embedding"}.with(ids, y, y);
  }
  static KernelWork collect(In x, Out bytes) { return KernelWork{"collect"}.with(x, bytes, bytes); }

  // A step reads and writes moments and master; it writes weights, too, if they are another tensor.
  static KernelWork sgd(const SgdStep&, const Segments& segments, In gradient, Out momentum,
                        Out master, Out weights) {
    std::vector<Tensor> passes{gradient, momentum, momentum, master, weights};
    if (weights.raw() != master.raw()) passes.push_back(master);
    return {.kind = "sgd", .bytes = bytes_in(segments, passes)};
  }
  static KernelWork adamw(const AdamWStep&, const Segments& segments, In gradient, Out m, Out v,
                          Out master, Out weights) {
    std::vector<Tensor> passes{gradient, m, m, v, v, master, weights};
    if (weights.raw() != master.raw()) passes.push_back(master);
    return {.kind = "adamw", .bytes = bytes_in(segments, passes)};
  }

 private:
  /// Operations of a product of (m,k) and (k,n) matrices, of which all or a part is computed.
  static double product_flops(std::int64_t elements_of_result, std::int64_t k) {
    return 2.0 * static_cast<double>(elements_of_result) * static_cast<double>(k);
  }

  /// Causal attention, by half of the T x T pairs: two products forward, and four on the way back.
  /// A kernel that computes scores again does more than it must.
  static KernelWork attention_work(const char* kind, const Tensor& qkv, int heads, int products) {
    const std::int64_t time = qkv.size(1), width = qkv.size(2) / 3;
    return {kind,
            qkv.dtype(),
            product_flops(qkv.numel() / 3, time) * products / 2,
            0,
            {time, time, width / heads, qkv.size(0) * heads * products / 2}};
  }

  /// A convolution, or either part of its gradient, of images `x` and `y`.
  static KernelWork convolution(const char* kind, const Tensor& weight, const Window& w,
                                const Tensor& x, const Tensor& y) {
    const std::int64_t patch = weight.numel() / weight.size(0);
    return {text(kind, ' ', weight.size(0), 'x', weight.size(1), 'x', w.height, 'x', w.width,
                 w.stride > 1 ? text('/', w.stride) : "", " of ", x.size(2), 'x', x.size(3)),
            x.dtype(),
            product_flops(y.numel(), patch),
            0,
            {weight.size(0), y.numel() / weight.size(0), patch}};
  }

  /// Bytes of some tensors' elements in these segments, once for each time that a tensor is listed.
  static double bytes_in(const Segments& segments, const std::vector<Tensor>& tensors) {
    std::int64_t bytes = 0;
    for (const Segment& segment : segments)
      for (const Tensor& x : tensors) bytes += (segment.last - segment.first) * size_of(x.dtype());
    return static_cast<double>(bytes);
  }
};

/// The work of a call of kernel `name`, one of KernelWorks or of autograd/kernels.h.
#define PG_KERNEL_WORK(name, ...)                          \
  [](auto special, const auto&... arguments) {             \
    if constexpr (requires { &decltype(special)::name; })  \
      return special.name(arguments...);                   \
    else                                                   \
      return KernelWork{.kind = #name}.with(arguments...); \
  }(KernelWorks(), __VA_ARGS__)

/// Calls of one kind of kernel, all together.
struct KernelCalls {
  DType dtype = DType::f32;
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  Products products = {};  ///< the products of one call
  void add(const KernelWork& work, double taken = 0) {
    dtype = work.dtype;
    ++calls;
    seconds += taken;
    flops += work.flops;
    bytes += work.bytes;
    products = work.products;
  }
  static auto fields(auto& x) {
    return std::tie(x.dtype, x.calls, x.seconds, x.flops, x.bytes, x.products);
  }
};

/// Kinds of kernels; sizes are part of a product's kind.
using KernelTable = std::map<std::string, KernelCalls>;

}  // namespace plangrad::autograd
