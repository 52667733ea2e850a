// All products become one kernel on batches of matrices, and their gradients products of it again;
// linear() adds a bias, and gives its weights' gradients in their own type (gradient_dtype).
// Chapter 01.
#include "autograd/ops/matmul.h"

#include "autograd/backend.h"
#include "autograd/ops/layout.h"
#include "autograd/ops/reduce.h"

namespace paragrad::autograd {

namespace {

/// x as a batch of matrices: leading dimensions become one.                (...,R,C) -> (B,R,C)
Tensor as_batch(const Tensor& x) {
  int rank = x.shape().rank();
  return x.window(0, {x.shape().product(0, rank - 2), x.size(-2), x.size(-1)});
}

/// op(a) op(b) for batches, outside any graph.
Tensor product(const Tensor& a, const Tensor& b, Transposes t, DType dtype) {
  Tensor c = empty({a.size(0), a.size(t.a ? 2 : 1), b.size(t.b ? 1 : 2)}, dtype, a.device());
  a.backend().gemm({t.a, t.b}, a, b, {}, c);
  return c;
}

}  // namespace

// C = op(A) op(B):  dA = dC B^T and dB = A^T dC, and with transposed inputs their transposes.
Tensor matmul(const Tensor& a, const Tensor& b, Transposes t) {
  int ra = a.shape().rank(), rb = b.shape().rank();
  PG_CHECK(a.dtype() == b.dtype(), "matmul: types differ, a is ", a, ", b is ", b);
  PG_CHECK(ra >= 2 && rb >= 2, "matmul: expected matrices, a is ", a.shape(), ", b is ", b.shape());
  std::int64_t k = a.size(t.a ? -2 : -1);
  PG_CHECK(k == b.size(t.b ? -1 : -2), "matmul: inner sizes differ, a is ", a.shape(),
           t.a ? " transposed" : "", ", b is ", b.shape(), t.b ? " transposed" : "");

  // One matrix b for many of a: the rows of all of them are multiplied at once.
  if (rb == 2 && ra > 2) {
    PG_CHECK(!t.a, "matmul: a batch of transposed matrices with a single b; transpose a first");
    Tensor y = matmul(reshape(a, {-1, k}), b, t);
    return reshape(y, a.shape().with(-1, y.size(-1)));
  }
  PG_CHECK(ra == rb, "matmul: leading dimensions differ, a is ", a.shape(), ", b is ", b.shape());
  for (int i = 0; i < ra - 2; ++i)
    PG_CHECK(a.size(i) == b.size(i), "matmul: leading dimensions differ, a is ", a.shape(),
             ", b is ", b.shape());

  Tensor x = as_batch(a), w = as_batch(b), c = product(x, w, t, a.dtype());
  Shape shape = a.shape().with(-2, c.size(1)).with(-1, c.size(2));
  return record(
      c.window(0, shape), "matmul", {a, b}, [a, b, t](const Tensor& dc) -> std::vector<Tensor> {
        Tensor x = as_batch(a), w = as_batch(b), d = as_batch(dc), da, db;
        if (a.requires_grad())
          da =
              t.a ? product(w, d, {t.b, true}, a.dtype()) : product(d, w, {false, !t.b}, a.dtype());
        if (b.requires_grad())
          db =
              t.b ? product(d, x, {true, t.a}, b.dtype()) : product(x, d, {!t.a, false}, b.dtype());
        if (da.defined()) da = da.window(0, a.shape());
        if (db.defined()) db = db.window(0, b.shape());
        return {da, db};
      });
}

// [snippet linear]
// y = x W^T + b:  dx = dy W,  dW = dy^T x,  db = the sum of dy over its rows
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  PG_CHECK(weight.shape().rank() == 2 && x.shape().rank() >= 1 && x.size(-1) == weight.size(1),
           "linear: x is ", x.shape(), ", the weight ", weight.shape(), "; expected (Out,",
           x.shape().rank() ? x.size(-1) : 0, ")");
  PG_CHECK(x.dtype() == weight.dtype(), "linear: x is ", x, ", the weight ", weight);
  PG_CHECK(weight.numel() > 0, "linear: the weight ", weight.shape(), " has no elements");
  PG_CHECK(!bias.defined() || (bias.shape() == Shape{weight.size(0)} && bias.dtype() == x.dtype()),
           "linear: the bias is ", bias, "; expected ", x.dtype(), " (", weight.size(0), ")");
  std::int64_t in = weight.size(1), out = weight.size(0), rows = x.numel() / in;
  Tensor w = weight.window(0, {1, out, in});
  Tensor y = empty(x.shape().with(-1, out), x.dtype(), x.device());
  x.backend().gemm({false, true}, x.window(0, {1, rows, in}), w, bias, y.window(0, {1, rows, out}));
  return record(y, "linear", {x, weight, bias}, [=](const Tensor& dy) -> std::vector<Tensor> {
    Tensor d = dy.window(0, {1, rows, out}), dx, dw, db;
    DType dtype = gradient_dtype(weight.dtype());
    if (x.requires_grad()) dx = product(d, w, {}, x.dtype()).window(0, x.shape());
    if (weight.requires_grad())
      dw = product(d, x.window(0, {1, rows, in}), {true, false}, dtype).window(0, {out, in});
    if (bias.defined() && bias.requires_grad()) {
      db = empty({1, out}, dtype, bias.device());
      dy.backend().reduce(Reduction::sum, dy.window(0, {rows, out}), db);
      db = db.window(0, {out});
    }
    return {dx, dw, db};
  });
}
// [end snippet]

}  // namespace paragrad::autograd
