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
  DType dtype = DType::f32;  ///< of what it multiplies
  double flops = 0;          ///< of products; a multiplication and an addition count as two
  double bytes = 0;          ///< that it must read and write if caches hold nothing
  Products products = {};

  /// Also reads or writes each of the tensors among these arguments once.
  KernelWork&& with(const auto&... arguments) && {
    ((bytes += bytes_of(arguments)), ...);
    return std::move(*this);
  }
};

/// Kernels that do more, or less, than read or write each of their tensors once.
struct KernelWorks {
  using In = const Tensor&;
  using Out = const Tensor&;

  static KernelWork gemm(Backend::Gemm how, In a, In b, In bias, Out c);
  static KernelWork spmm(const SparsePattern& pattern, In values, In b, In bias, Out c);
  static KernelWork sddmm(const SparsePattern& pattern, In d, In b, Out values);
  static KernelWork layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y,
                               Out mean, Out inverse);
  static KernelWork attention(In qkv, int heads, Out y, Out normalizer);
  static KernelWork attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv);
  static KernelWork conv2d(In x, In weight, Window window, Out y);
  static KernelWork conv2d_backward_input(In dy, In weight, Window window, Out dx);
  static KernelWork conv2d_backward_weight(In x, In dy, Window window, Out dweight);
  static KernelWork copy_rows(In x, Backend::Rows from, std::int64_t rows, std::int64_t width,
                              Out y, Backend::Rows to);
  static KernelWork gather(In x, In index, bool add, Out y);
  static KernelWork unary_backward(Unary op, In x, In y, In dy, Out dx);
  static KernelWork binary(Binary op, In a, In b, Out y);
  static KernelWork scale_by(In factor, Out x);
  static KernelWork accumulate(In x, Out y);
  static KernelWork reduce(Reduction op, In x, Out y);
  static KernelWork sums_of_squares(const std::vector<Tensor>& tensors);
  static KernelWork embedding(In table, In ids, Out y);
  static KernelWork collect(In x, Out bytes);
  static KernelWork sgd(const SgdStep& step, const Segments& segments, In gradient, Out momentum,
                        Out master, Out weights);
  static KernelWork adamw(const AdamWStep& step, const Segments& segments, In gradient, Out m,
                          Out v, Out master, Out weights);
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
  Products products = {};  ///< of one call
  void add(const KernelWork& work, double taken = 0);
  static auto fields(auto& x) {
    return std::tie(x.dtype, x.calls, x.seconds, x.flops, x.bytes, x.products);
  }
};

/// Kinds of kernels; sizes are part of a product's kind.
using KernelTable = std::map<std::string, KernelCalls>;

}  // namespace plangrad::autograd
