// Operations on rows, with the formula of the gradient above each. Kernels see a tensor of any rank
// as rows of values (R,C). Not here: the kernels (autograd/cpu/rows.cpp).
// Chapter 02.
#include "autograd/ops.h"

#include "autograd/backend.h"

namespace paragrad::autograd {

namespace {

/// x as rows of its last dimension.                                         (...,C) -> (R,C)
Tensor as_rows(const Tensor& x) {
  PG_CHECK(x.shape().rank() > 0 && x.numel() > 0, "expected rows of values, got ", x.shape());
  return x.window(0, {x.numel() / x.size(-1), x.size(-1)});
}

}  // namespace

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

// With n = (x - mean) / deviation:
//   dweight = sum_r dy n,  dbias = sum_r dy,  dn = dy weight,
//   dx = (dn - mean_c dn - n mean_c(dn n)) / deviation
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  Tensor rows = as_rows(x), y = empty_like(x);
  PG_CHECK(weight.shape() == Shape{rows.size(1)} && bias.shape() == weight.shape(),
           "layer_norm: x is ", x.shape(), ", the weight ", weight.shape(), ", the bias ",
           bias.shape(), "; expected (", rows.size(1), ")");
  DType dtype = statistic_dtype(x.dtype());
  Tensor mean = empty({rows.size(0)}, dtype, x.device());
  Tensor inverse = empty({rows.size(0)}, dtype, x.device());
  x.backend().layer_norm(rows, weight, bias, epsilon, as_rows(y), mean, inverse);
  return record(y, "layer_norm", {x, weight, bias},
                [=, shape = x.shape()](const Tensor& dy) -> std::vector<Tensor> {
                  Tensor dx = empty(shape, rows.dtype(), rows.device());
                  Tensor dweight = empty(weight.shape(), dtype, weight.device());
                  Tensor dbias = empty(bias.shape(), dtype, bias.device());
                  dy.backend().layer_norm_backward(rows, weight, mean, inverse, as_rows(dy),
                                                   as_rows(dx), dweight, dbias);
                  return {dx, dweight, dbias};
                });
}

// dlogits[r,c] = (softmax(logits[r])[c] - [c == target[r]]) / R
Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  Tensor rows = as_rows(logits);
  PG_CHECK(targets.dtype() == DType::i32 && targets.numel() == rows.size(0),
           "cross_entropy: logits are ", logits.shape(), ", targets are ", targets,
           "; expected i32 ", Shape{rows.size(0)});
  DType dtype = statistic_dtype(logits.dtype());
  Tensor loss = empty({rows.size(0)}, dtype, logits.device());
  Tensor normalizer = empty({rows.size(0)}, dtype, logits.device());
  logits.backend().cross_entropy(rows, targets, loss, normalizer);
  double scale = 1.0 / rows.size(0);
  return record(mean(loss), "cross_entropy", logits, [=](const Tensor& dy) {
    Tensor dlogits = empty_like(logits);
    dy.backend().cross_entropy_backward(rows, targets, normalizer, dy, scale, as_rows(dlogits));
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

}  // namespace paragrad::autograd
