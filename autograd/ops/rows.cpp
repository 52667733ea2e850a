// Operations on rows, with the formula of the gradient above each. Kernels see a tensor of any rank
// as rows of values (R,C). Not here: the kernels (autograd/cpu/rows.cpp). Chapters 02 and 03.
#include "autograd/backend.h"
#include "autograd/ops.h"

namespace plangrad::autograd {

/// x as rows of its last dimension.                                         (...,C) -> (R,C)
static Tensor as_rows(const Tensor& x) {
  PG_CHECK(x.shape().rank() > 0 && x.numel() > 0, "expected rows of values, got ", x.shape());
  return x.window(0, {x.numel() / x.size(-1), x.size(-1)});
}

// dx = y (dy - sum_c y dy)
Tensor softmax(const Tensor& x) {
  Tensor y = empty_like(x);
  x.backend().softmax(as_rows(x), as_rows(y));
  return record(y, "softmax", x, [y](const Tensor& dy) {
    Tensor dx = empty_like(y);
    y.backend().softmax_backward(as_rows(y), as_rows(dy), as_rows(dx));
    return dx;
  });
}

namespace {

/// Each row's mean and 1 / deviation, for a kernel to write.
struct RowStatistics {
  Tensor mean, inverse;

  explicit RowStatistics(const Tensor& rows)
      : mean(empty({rows.size(0)}, statistic_dtype(rows.dtype()), rows.device())),
        inverse(empty_like(mean)) {}
};

void check_norm(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Shape row{as_rows(x).size(1)};
  PG_CHECK(weight.shape() == row && bias.shape() == row, name, ": x is ", x.shape(),
           ", the weight ", weight.shape(), ", the bias ", bias.shape(), "; expected (", row[0],
           ")");
}

// With n = (x - mean) / deviation:
//   dweight = sum_r dy n,  dbias = sum_r dy,  dn = dy weight,
//   dx = (dn - mean_c dn - n mean_c(dn n)) / deviation, plus the gradient that x has so far
Tensor record_norm(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const RowStatistics& of) {
  return record(y, "layer_norm", {x, weight, bias},
                [=, rows = as_rows(x), shape = x.shape()](
                    const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
                  Tensor dx = empty(shape, rows.dtype(), rows.device());
                  Tensor dweight = empty(weight.shape(), of.mean.dtype(), weight.device());
                  Tensor dbias = empty_like(dweight);
                  const Tensor sum = wanted.take_sum(0),
                               so_far = sum.defined() ? as_rows(sum) : sum;
                  dy.backend().layer_norm_backward(rows, weight, of.mean, of.inverse, as_rows(dy),
                                                   so_far, as_rows(dx), dweight, dbias);
                  return {dx, dweight, dbias};
                });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_norm("layer_norm", x, weight, bias);
  const Tensor rows = as_rows(x), y = empty_like(x);
  const RowStatistics of(rows);
  x.backend().layer_norm(rows, {}, weight, bias, epsilon, {}, as_rows(y), of.mean, of.inverse);
  return record_norm(y, x, weight, bias, of);
}

// dx = da = dsum + the gradient of the norm's input, which layer_norm_backward adds up
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& a, const Tensor& weight,
                          const Tensor& bias, double epsilon) {
  check_norm("add_layer_norm", x, weight, bias);
  PG_CHECK(a.shape() == x.shape() && a.dtype() == x.dtype(), "add_layer_norm: x is ", x, ", a is ",
           a, "; expected the same shape and type");
  const Tensor sum = empty_like(x), y = empty_like(x);
  const RowStatistics of(as_rows(x));
  x.backend().layer_norm(as_rows(x), as_rows(a), weight, bias, epsilon, as_rows(sum), as_rows(y),
                         of.mean, of.inverse);
  const Tensor tied = record(sum, "add", {x, a}, [](const Tensor& dy, const Wanted&) {
    return std::vector<Tensor>{dy, dy};
  });
  return {tied, record_norm(y, tied, weight, bias, of)};
}

// dlogits[r,c] = (softmax(logits[r])[c] - [c == target[r]]) / R, which is written by the pass that
// reads the logits
Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  Tensor rows = as_rows(logits);
  PG_CHECK(targets.dtype() == DType::i32 && targets.numel() == rows.size(0),
           "cross_entropy: logits are ", logits.shape(), ", targets are ", targets,
           "; expected i32 ", Shape{rows.size(0)});
  DType dtype = statistic_dtype(logits.dtype());
  Tensor loss = empty({rows.size(0)}, dtype, logits.device()), dlogits;
  if (logits.requires_grad() && logits.device()->records_gradients()) dlogits = empty_like(logits);
  logits.backend().cross_entropy(rows, targets, rows.size(1), 1.0 / rows.size(0), loss,
                                 dlogits.defined() ? as_rows(dlogits) : dlogits);
  return record(mean(loss), "cross_entropy", logits, [=](const Tensor& dy) {
    dlogits.backend().scale_by(dy, dlogits);
    return dlogits;
  });
}

// dtable[v] = the sum of dy[r] over the rows r with ids[r] == v
Tensor embedding(const Tensor& table, const Tensor& ids) {
  PG_CHECK(table.shape().rank() == 2 && ids.dtype() == DType::i32,
           "embedding: expected a table (V,C) and ids of i32, got ", table, " and ", ids);
  std::vector<std::int64_t> sizes = ids.shape().sizes();
  sizes.push_back(table.size(1));
  Tensor y = empty(Shape(sizes), table.dtype(), table.device());
  table.backend().embedding(table, ids, as_rows(y));
  return record(y, "embedding", table, [table, ids](const Tensor& dy) {
    Tensor dtable = empty(table.shape(), gradient_dtype(table.dtype()), table.device());
    dy.backend().embedding_backward(ids, as_rows(dy), dtable);
    return dtable;
  });
}

/// The weight with rows of zeros below, if it has fewer rows than that.      (C,In) -> (rows,In)
/// GPUs multiply fast where rows of all matrices begin at multiples of 16 bytes and sizes are
/// multiples of 16 bytes, too (cuBLAS library reference, tensor core usage). With GPT-2's 50257
/// tokens none of the three products of linear_cross_entropy has that. So a device may ask for more
/// rows of the weight (Backend::row_pitch): zeros, in a copy that lives as long as a product.
/// Weights, and whatever is saved or sent, keep their shape.
static Tensor with_rows(const Tensor& weight, std::int64_t rows) {
  const std::int64_t classes = weight.size(0), in = weight.size(1);
  if (rows == classes) return weight;
  Tensor padded = workspace({rows, in}, weight.dtype(), weight.device());
  weight.backend().copy(weight, padded.window(0, weight.shape()));
  weight.backend().fill(0, padded.window(classes * in, {rows - classes, in}));
  return padded;
}

/// c = op(a) op(b), for matrices.
static void multiply(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& c) {
  auto batch = [](const Tensor& x) { return x.window(0, {1, x.size(0), x.size(1)}); };
  c.backend().gemm(how, batch(a), batch(b), {}, batch(c));
}

// dx = dlogits W,  dW = dlogits^T x;  dlogits as in cross_entropy
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets) {
  PG_CHECK(weight.shape().rank() == 2 && x.shape().rank() >= 1 && x.size(-1) == weight.size(1) &&
               x.dtype() == weight.dtype() && x.numel() > 0,
           "linear_cross_entropy: x is ", x, ", the weight ", weight,
           "; expected rows as wide as the weight's, in its type");
  const std::int64_t classes = weight.size(0), rows = x.numel() / x.size(-1);
  PG_CHECK(targets.dtype() == DType::i32 && targets.numel() == rows, "linear_cross_entropy: x is ",
           x, ", targets are ", targets, "; expected i32 (", rows, ")");
  const DevicePtr& device = x.device();
  const std::int64_t pitch = device->backend().row_pitch(classes);
  const Tensor flat = x.window(0, {rows, x.size(-1)});
  // [snippet logits]
  const Tensor logits = empty({rows, pitch}, x.dtype(), device);
  const Tensor loss = empty({rows}, statistic_dtype(x.dtype()), device);
  multiply({false, true}, flat, with_rows(weight, pitch), logits);
  const bool wanted = device->records_gradients() && (x.requires_grad() || weight.requires_grad());
  device->backend().cross_entropy(logits, targets, classes, 1.0 / rows, loss,
                                  wanted ? logits : Tensor());
  // From here on, `logits` holds their gradient.
  // [end snippet]
  return record(mean(loss), "linear_cross_entropy", {x, weight},
                [=](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
                  Tensor dx, dw;
                  if (wanted[0]) {
                    dx = empty(x.shape(), x.dtype(), x.device());
                    multiply({}, logits, with_rows(weight, pitch), dx.window(0, flat.shape()));
                    dx.backend().scale_by(dy, dx);
                  }
                  if (wanted[1]) {
                    dw = empty({pitch, weight.size(1)}, gradient_dtype(weight.dtype()), x.device());
                    multiply({true, false}, logits, flat, dw);
                    dw = dw.window(0, weight.shape());
                    dw.backend().scale_by(dy, dw);
                  }
                  return {dx, dw};
                });
}

}  // namespace plangrad::autograd
