// Forward beside backward: the formulas of autograd/ops/matmul.cpp's linear, with sparse products.
// Not here: the products, which are the backend's.
// Gale et al. 2020.
#include "sparse/sparse_linear.h"

namespace paragrad::sparse {

SparseWeight::SparseWeight(const Tensor& index, std::int64_t out, std::int64_t in)
    : pattern(pattern_of(index, out, in)), transposed(sparse::transposed(pattern)) {}

// [snippet sparse_linear]
// y = x W^T + b:  dx = dy W,  dW = dy^T x where W has elements,  db = the sum of dy over its rows
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& values,
                     const Tensor& bias) {
  std::int64_t in = weight.pattern.width, out = weight.pattern.rows(), rows = x.numel() / in;
  PG_CHECK(x.shape().rank() >= 1 && x.size(-1) == in, "sparse_linear: x is ", x.shape(),
           ", the weight (", out, ",", in, "); expected x (...,", in, ")");
  PG_CHECK(values.numel() == weight.pattern.elements() && values.dtype() == x.dtype(),
           "sparse_linear: the values are ", values, "; expected ", x.dtype(), " (",
           weight.pattern.elements(), ")");
  PG_CHECK(!bias.defined() || (bias.shape() == Shape{out} && bias.dtype() == x.dtype()),
           "sparse_linear: the bias is ", bias, "; expected ", x.dtype(), " (", out, ")");
  Tensor flat = x.window(0, {rows, in}), y = empty({rows, out}, x.dtype(), x.device());
  x.backend().spmm(weight.pattern, values, Vectors::rows, flat, bias, y);
  return record(y.window(0, x.shape().with(-1, out)), "sparse_linear", {x, values, bias},
                [=](const Tensor& dy) -> std::vector<Tensor> {
                  Tensor d = dy.window(0, {rows, out}), dx, dw, db;
                  DType dtype = gradient_dtype(values.dtype());
                  if (x.requires_grad()) {
                    dx = empty(x.shape(), x.dtype(), x.device());
                    d.backend().spmm(weight.transposed, values, Vectors::rows, d, {},
                                     dx.window(0, {rows, in}));
                  }
                  if (values.requires_grad()) {
                    dw = empty(values.shape(), dtype, values.device());
                    d.backend().sddmm(weight.pattern, Vectors::rows, d, flat, dw);
                  }
                  if (bias.defined() && bias.requires_grad()) {
                    db = empty({1, out}, dtype, bias.device());
                    d.backend().reduce(Reduction::sum, d, db);
                    db = db.window(0, {out});
                  }
                  return {dx, dw, db};
                });
}
// [end snippet]

}  // namespace paragrad::sparse
