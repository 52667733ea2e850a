// The kernel that reads the logits writes their gradient over them; backward has products left.
// GPUs multiply fast where rows of all matrices begin at multiples of 16 bytes and sizes are
// multiples of 16 bytes, too (cuBLAS library reference, tensor core usage). With GPT-2's 50257
// tokens none of the three products here has that. So a device may ask for more rows of the weight
// (Backend::row_pitch): zeros, in a copy that lives as long as a product. Weights, and whatever is
// saved or sent, keep their shape. Chapter 03.
#include "autograd/linear_cross_entropy.h"

#include "autograd/backend.h"
#include "autograd/ops.h"

namespace plangrad::autograd {

namespace {

/// The weight with rows of zeros below, if it has fewer rows than that.      (C,In) -> (rows,In)
Tensor with_rows(const Tensor& weight, std::int64_t rows) {
  const std::int64_t classes = weight.size(0), in = weight.size(1);
  if (rows == classes) return weight;
  Tensor padded = workspace({rows, in}, weight.dtype(), weight.device());
  weight.backend().copy(weight, padded.window(0, weight.shape()));
  weight.backend().fill(0, padded.window(classes * in, {rows - classes, in}));
  return padded;
}

/// c = op(a) op(b), for matrices.
void multiply(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& c) {
  auto batch = [](const Tensor& x) { return x.window(0, {1, x.size(0), x.size(1)}); };
  c.backend().gemm(how, batch(a), batch(b), {}, batch(c));
}

}  // namespace

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
