// Functions of one tensor share apply(); the others have their gradient's formula above them.
// If broadcasting repeated an input, sum_to sums its gradient. Chapter 01.
#include "autograd/ops.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

static void check_pair(const char* name, const Tensor& a, const Tensor& b) {
  PG_CHECK(a.defined() && b.defined(), name, ": an input has no values");
  PG_CHECK(a.dtype() == b.dtype(), name, ": types differ, a is ", a, ", b is ", b);
  PG_CHECK(a.device() == b.device(), name, ": a and b live on different devices");
}

/// a op b, outside any graph.
static Tensor compute(Binary op, const Tensor& a, const Tensor& b) {
  constexpr const char* names[] = {"add", "subtract", "multiply", "divide"};
  check_pair(names[static_cast<int>(op)], a, b);
  Tensor y = empty(broadcast(a.shape(), b.shape()), a.dtype(), a.device());
  a.backend().binary(op, a, b, y);
  return y;
}

static Tensor apply(Unary op, const char* name, const Tensor& x) {
  Tensor y = empty_like(x);
  x.backend().unary(op, x, y);
  return record(y, name, x, [op, x, y](const Tensor& dy) {
    Tensor dx = empty_like(x);
    x.backend().unary_backward(op, x, y, dy, dx);
    return dx;
  });
}

// d(a + b) = da + db
Tensor add(const Tensor& a, const Tensor& b) {
  return record(compute(Binary::add, a, b), "add", {a, b},
                [p = a.shape(), q = b.shape()](const Tensor& dy) -> std::vector<Tensor> {
                  return {sum_to(dy, p), sum_to(dy, q)};
                });
}

// d(a - b) = da - db
Tensor subtract(const Tensor& a, const Tensor& b) {
  return record(compute(Binary::subtract, a, b), "subtract", {a, b},
                [p = a.shape(), q = b.shape()](const Tensor& dy) -> std::vector<Tensor> {
                  return {sum_to(dy, p), affine(sum_to(dy, q), -1)};
                });
}

// [snippet multiply]
// d(ab) = b da + a db
Tensor multiply(const Tensor& a, const Tensor& b) {
  return record(compute(Binary::multiply, a, b), "multiply", {a, b},
                [a, b](const Tensor& dy) -> std::vector<Tensor> {
                  Tensor da, db;
                  if (a.requires_grad()) da = sum_to(compute(Binary::multiply, dy, b), a.shape());
                  if (b.requires_grad()) db = sum_to(compute(Binary::multiply, dy, a), b.shape());
                  return {da, db};
                });
}
// [end snippet]

// d(a / b) = da / b - (a / b) db / b
Tensor divide(const Tensor& a, const Tensor& b) {
  Tensor y = compute(Binary::divide, a, b);
  return record(y, "divide", {a, b}, [a, b, y](const Tensor& dy) -> std::vector<Tensor> {
    Tensor da = compute(Binary::divide, dy, b);
    Tensor db = b.requires_grad() ? affine(compute(Binary::multiply, da, y), -1) : Tensor();
    return {sum_to(da, a.shape()), db.defined() ? sum_to(db, b.shape()) : db};
  });
}

Tensor affine(const Tensor& x, double scale, double shift) {
  Tensor y = empty_like(x);
  x.backend().affine(x, scale, shift, y);
  return record(y, "affine", x, [scale](const Tensor& dy) { return affine(dy, scale); });
}

Tensor negate(const Tensor& x) { return apply(Unary::negate, "negate", x); }
Tensor exp(const Tensor& x) { return apply(Unary::exp, "exp", x); }
Tensor log(const Tensor& x) { return apply(Unary::log, "log", x); }
Tensor sqrt(const Tensor& x) { return apply(Unary::sqrt, "sqrt", x); }
Tensor tanh(const Tensor& x) { return apply(Unary::tanh, "tanh", x); }
Tensor relu(const Tensor& x) { return apply(Unary::relu, "relu", x); }
Tensor gelu(const Tensor& x) { return apply(Unary::gelu, "gelu", x); }

Tensor bias_gelu(const Tensor& x, const Tensor& bias) {
  check_pair("bias_gelu", x, bias);
  PG_CHECK(bias.numel() > 0, "bias_gelu: the bias ", bias.shape(), " has no elements");
  PG_CHECK(bias.shape() == Shape{x.size(-1)}, "bias_gelu: x is ", x.shape(), ", the bias ",
           bias.shape(), "; expected (", x.size(-1), ")");
  Tensor y = empty_like(x);
  x.backend().bias_gelu(x, bias, y);
  return record(y, "bias_gelu", {x, bias}, [x, bias](const Tensor& dy) -> std::vector<Tensor> {
    Tensor dx = empty_like(x);
    Tensor dbias = empty(bias.shape(), gradient_dtype(bias.dtype()), bias.device());
    x.backend().bias_gelu_backward(x, bias, dy, dx, dbias);
    return {dx, dbias};
  });
}

// The same key gives the same mask, so none is stored.
Tensor dropout(const Tensor& x, double p, RandomKey key) {
  PG_CHECK(p >= 0 && p < 1, "dropout: the probability must be in [0,1), got ", p);
  if (p == 0) return x;
  Tensor y = empty_like(x);
  x.backend().dropout(x, p, key, y);
  return record(y, "dropout", x, [p, key](const Tensor& dy) {
    Tensor dx = empty_like(dy);
    dy.backend().dropout(dy, p, key, dx);
    return dx;
  });
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = empty(x.shape(), dtype, x.device());
  x.backend().copy(x, y);
  return record(y, "cast", x, [from = x.dtype()](const Tensor& dy) { return cast(dy, from); });
}

}  // namespace plangrad::autograd
