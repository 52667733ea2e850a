// Every kernel with the least that it must do. Products count operations; all kernels count the
// bytes of their tensors, and once more of those that they both read and write.
// Not here: operations of other kernels: those wait for memory.
// Chapter 03.
#include "examples/profile/profiled_backend.h"

namespace plangrad::autograd {

namespace {

/// Operations of a product of (m,k) and (k,n) matrices, of which all or a part is computed.
double product_flops(std::int64_t elements_of_result, std::int64_t k) {
  return 2.0 * static_cast<double>(elements_of_result) * static_cast<double>(k);
}

/// Operations of causal attention, by half of the T x T pairs: two products forward, and four on
/// the way back. A kernel that computes scores again does more than it must.
double attention_flops(const Tensor& qkv, int products) {
  return product_flops(qkv.numel() / 3, qkv.size(1)) * products / 2;
}

std::string convolution(const char* name, const Tensor& weight, const Window& w, const Tensor& x) {
  return text(name, ' ', weight.size(0), 'x', weight.size(1), 'x', w.height, 'x', w.width,
              w.stride > 1 ? text('/', w.stride) : "", " of ", x.size(2), 'x', x.size(3));
}
/// Operations of a convolution, or of either part of its gradient.
KernelWork convolution_work(const Tensor& weight, const Tensor& y) {
  return {weight.dtype(), product_flops(y.numel(), weight.numel() / weight.size(0))};
}

}  // namespace

// ---- matrices
void ProfiledBackend::gemm(Gemm how, In a, In b, In bias, Out c) {
  const std::int64_t k = a.size(how.transpose_a ? 1 : 2);
  const std::string sizes =
      text(c.size(0) > 1 ? text(c.size(0), " x ") : "", c.size(1), 'x', c.size(2), 'x', k);
  run(text("gemm ", how.transpose_a ? 'T' : 'N', how.transpose_b ? 'T' : 'N', ' ', sizes),
      {a.dtype(), product_flops(c.numel(), k), how.add ? bytes_of(c) : 0}, &Backend::gemm, how, a,
      b, bias, c);
}
void ProfiledBackend::spmm(const SparsePattern& pattern, In values, Vectors how, In b, In bias,
                           Out c) {
  run("spmm", {values.dtype(), product_flops(pattern.elements(), c.numel() / pattern.rows())},
      &Backend::spmm, pattern, values, how, b, bias, c);
}
void ProfiledBackend::sddmm(const SparsePattern& pattern, Vectors how, In d, In b, Out values) {
  run("sddmm", {d.dtype(), product_flops(pattern.elements(), d.numel() / pattern.rows())},
      &Backend::sddmm, pattern, how, d, b, values);
}

// ---- rows
void ProfiledBackend::softmax(In x, Out y) { run("softmax", {}, &Backend::softmax, x, y); }
void ProfiledBackend::softmax_backward(In y, In dy, Out dx) {
  run("softmax_backward", {}, &Backend::softmax_backward, y, dy, dx);
}
void ProfiledBackend::layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean,
                                 Out inverse) {
  run("layer_norm", {}, &Backend::layer_norm, x, weight, bias, epsilon, y, mean, inverse);
}
void ProfiledBackend::add_layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y,
                                     Out mean, Out inverse) {
  run("add_layer_norm", {}, &Backend::add_layer_norm, x, a, weight, bias, epsilon, sum, y, mean,
      inverse);
}
void ProfiledBackend::layer_norm_backward(In x, In weight, In mean, In inverse, In dy, In so_far,
                                          Out dx, Out dweight, Out dbias) {
  run("layer_norm_backward", {}, &Backend::layer_norm_backward, x, weight, mean, inverse, dy,
      so_far, dx, dweight, dbias);
}
void ProfiledBackend::cross_entropy(In logits, In targets, std::int64_t classes, double scale,
                                    Out loss, Out dlogits) {
  run("cross_entropy", {}, &Backend::cross_entropy, logits, targets, classes, scale, loss, dlogits);
}
void ProfiledBackend::embedding(In table, In ids, Out y) {
  // Reads rows of the table.
  run_as("embedding", {.bytes = bytes_of(ids) + 2 * bytes_of(y)}, &Backend::embedding, table, ids,
         y);
}
void ProfiledBackend::embedding_backward(In ids, In dy, Out dtable) {
  run("embedding_backward", {}, &Backend::embedding_backward, ids, dy, dtable);
}

// ---- attention
void ProfiledBackend::attention(In qkv, int heads, Out y, Out normalizer) {
  run("attention", {qkv.dtype(), attention_flops(qkv, 2)}, &Backend::attention, qkv, heads, y,
      normalizer);
}
void ProfiledBackend::attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
  run("attention_backward", {qkv.dtype(), attention_flops(qkv, 4)}, &Backend::attention_backward,
      qkv, heads, y, normalizer, dy, dqkv);
}

// ---- images
void ProfiledBackend::conv2d(In x, In weight, Window window, Out y) {
  run(convolution("conv2d", weight, window, x), convolution_work(weight, y), &Backend::conv2d, x,
      weight, window, y);
}
void ProfiledBackend::conv2d_backward_input(In dy, In weight, Window window, Out dx) {
  run(convolution("conv2d_backward_input", weight, window, dx), convolution_work(weight, dy),
      &Backend::conv2d_backward_input, dy, weight, window, dx);
}
void ProfiledBackend::conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
  run(convolution("conv2d_backward_weight", dweight, window, x),
      {x.dtype(), convolution_work(dweight, dy).flops}, &Backend::conv2d_backward_weight, x, dy,
      window, dweight);
}
void ProfiledBackend::max_pool2d(In x, Window window, Out y, Out index) {
  run("max_pool2d", {}, &Backend::max_pool2d, x, window, y, index);
}
void ProfiledBackend::max_pool2d_backward(In dy, In index, Out dx) {
  run("max_pool2d_backward", {}, &Backend::max_pool2d_backward, dy, index, dx);
}
void ProfiledBackend::average_pool2d(In x, Window window, Out y) {
  run("average_pool2d", {}, &Backend::average_pool2d, x, window, y);
}
void ProfiledBackend::average_pool2d_backward(In dy, Window window, Out dx) {
  run("average_pool2d_backward", {}, &Backend::average_pool2d_backward, dy, window, dx);
}
void ProfiledBackend::batch_norm_statistics(In x, Out mean, Out variance) {
  run("batch_norm_statistics", {}, &Backend::batch_norm_statistics, x, mean, variance);
}
void ProfiledBackend::batch_norm_apply(In x, In mean, In variance, In weight, In bias,
                                       double epsilon, Out y) {
  run("batch_norm_apply", {}, &Backend::batch_norm_apply, x, mean, variance, weight, bias, epsilon,
      y);
}
void ProfiledBackend::batch_norm_backward(In x, In mean, In variance, In weight, double epsilon,
                                          In dy, Out dx, Out dweight, Out dbias) {
  run("batch_norm_backward", {}, &Backend::batch_norm_backward, x, mean, variance, weight, epsilon,
      dy, dx, dweight, dbias);
}

}  // namespace plangrad::autograd
