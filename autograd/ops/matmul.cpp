// Matrix products and causal attention. All products, and those in their gradients, use one kernel
// on batches of matrices; linear() adds a bias, and gives its weights' gradients in a type of their
// own (gradient_dtype). Not here: attention's loops over blocks of queries (cpu/attention.cpp).
// Chapters 01 and 02.
#include "autograd/backend.h"
#include "autograd/ops.h"

namespace plangrad::autograd {

/// x as a batch of matrices: leading dimensions become one.                (...,R,C) -> (B,R,C)
static Tensor as_batch(const Tensor& x) {
  int rank = x.shape().rank();
  return x.window(0, {x.shape().product(0, rank - 2), x.size(-2), x.size(-1)});
}

/// op(a) op(b) with equal leading dimensions, outside any graph.
static Tensor product(const Tensor& a, const Tensor& b, Transposes t, DType dtype) {
  std::int64_t rows = a.size(t.a ? -1 : -2), columns = b.size(t.b ? -2 : -1);
  Tensor c = empty(a.shape().with(-2, rows).with(-1, columns), dtype, a.device());
  a.backend().gemm({t.a, t.b}, as_batch(a), as_batch(b), {}, as_batch(c));
  return c;
}

// C = op(A) op(B):  dA = dC B^T and dB = A^T dC, and with transposed inputs their transposes.
Tensor matmul(const Tensor& a, const Tensor& b, Transposes t) {
  int ra = a.shape().rank(), rb = b.shape().rank();
  PG_CHECK(a.dtype() == b.dtype(), "matmul: types differ, a is ", a, ", b is ", b);
  PG_CHECK(ra >= 2 && rb >= 2, "matmul: expected matrices, a is ", a.shape(), ", b is ", b.shape());
  std::int64_t k = a.size(t.a ? -2 : -1);
  PG_CHECK(k == b.size(t.b ? -1 : -2), "matmul: inner sizes differ, a is ", a.shape(),
           t.a ? " transposed" : "", ", b is ", b.shape(), t.b ? " transposed" : "");

  // Multiply the rows of all matrices of a at once if there is only one matrix b.
  if (rb == 2 && ra > 2) {
    PG_CHECK(!t.a, "matmul: can't multiply a batch of transposed a by one b; transpose a first");
    Tensor y = matmul(reshape(a, {-1, k}), b, t);
    return reshape(y, a.shape().with(-1, y.size(-1)));
  }
  auto leading = [](const Tensor& x) { return x.shape().with(-2, 1).with(-1, 1); };
  PG_CHECK(leading(a) == leading(b), "matmul: leading dimensions differ, a is ", a.shape(),
           ", b is ", b.shape());

  DType dtype = a.dtype();
  return record(
      product(a, b, t, dtype), "matmul", {a, b},
      [=](const Tensor& dc, const Wanted& wanted) -> std::vector<Tensor> {
        Tensor da, db;
        if (wanted[0])
          da = t.a ? product(b, dc, {t.b, true}, dtype) : product(dc, b, {false, !t.b}, dtype);
        if (wanted[1])
          db = t.b ? product(dc, a, {true, t.a}, dtype) : product(a, dc, {!t.a, false}, dtype);
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
  Tensor flat = x.window(0, {rows, in}), y = empty(x.shape().with(-1, out), x.dtype(), x.device());
  Tensor target = y.window(0, {1, rows, out});
  x.backend().gemm({false, true}, as_batch(flat), as_batch(weight), bias, target);
  return record(y, "linear", {x, weight, bias},
                [=](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
                  Tensor d = dy.window(0, {rows, out}), dx, dw, db;
                  DType dtype = gradient_dtype(weight.dtype());
                  if (wanted[0]) dx = product(d, weight, {}, x.dtype()).window(0, x.shape());
                  if (wanted[2]) {
                    db = empty({out}, dtype, bias.device());
                    d.backend().reduce(Reduction::sum, d, db.window(0, {1, out}));
                  }
                  if (!wanted[1]) return {dx, dw, db};
                  const auto [sum, begun] = wanted.place(1);
                  if (!sum.defined()) dw = empty(weight.shape(), dtype, d.device());
                  d.backend().gemm({true, false, begun}, as_batch(d), as_batch(flat), {},
                                   as_batch(sum.defined() ? sum : dw));
                  return {dx, dw, db};
                });
}
// [end snippet]

// [snippet attention]
// With P = softmax(S), S = Q K^T / sqrt(d), O = P V:
//   dV = P^T dO,  dP = dO V^T,  dS = P (dP - sum_k dO O),
//   dQ = dS K / sqrt(d),  dK = dS^T Q / sqrt(d)
// P is computed again from S and the logarithm of its normalizer, one number per row.
Tensor attention(const Tensor& qkv, int heads) {
  PG_CHECK(qkv.shape().rank() == 3 && heads > 0 && qkv.size(2) % (3 * heads) == 0,
           "attention: expected (B,T,3C) with C a multiple of ", heads, " heads, got ",
           qkv.shape());
  PG_CHECK(qkv.numel() > 0, "attention: ", qkv.shape(), " has no elements");
  std::int64_t batch = qkv.size(0), time = qkv.size(1), width = qkv.size(2) / 3;
  Tensor y = empty({batch, time, width}, qkv.dtype(), qkv.device());
  Tensor normalizer = empty({batch, heads, time}, statistic_dtype(qkv.dtype()), qkv.device());
  qkv.backend().attention(qkv, heads, y, normalizer);
  return record(y, "attention", qkv, [=](const Tensor& dy) {
    Tensor dqkv = empty_like(qkv);
    qkv.backend().attention_backward(qkv, heads, y, normalizer, dy, dqkv);
    return dqkv;
  });
}
// [end snippet]

}  // namespace plangrad::autograd
