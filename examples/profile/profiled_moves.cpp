// Kernels without products: they wait for memory, so that only their bytes count: those of their
// tensors, and once more of those that they both read and write.
// Not here: products, rows and images (profiled_kernels.cpp). Chapter 03.
#include "examples/profile/profiled_backend.h"

namespace plangrad::autograd {

namespace {

const char* name_of(Binary op) {
  static constexpr const char* names[] = {"add", "subtract", "multiply", "divide"};
  return names[static_cast<int>(op)];
}

}  // namespace

// ---- memory
void ProfiledBackend::copy_from_host(const void* source, Out y) {
  run("copy_from_host", {.bytes = bytes_of(y)}, &Backend::copy_from_host, source, y);
}
void ProfiledBackend::copy_to_host(In x, void* target) {
  run("copy_to_host", {.bytes = bytes_of(x)}, &Backend::copy_to_host, x, target);
}
void ProfiledBackend::copy(In x, Out y) { run("copy", {}, &Backend::copy, x, y); }
void ProfiledBackend::fill(double value, Out y) { run("fill", {}, &Backend::fill, value, y); }
std::vector<double> ProfiledBackend::sums_of_squares(const std::vector<Tensor>& tensors) {
  KernelWork work;
  for (const Tensor& x : tensors) work.bytes += bytes_of(x);
  return run("sum_of_squares", work, &Backend::sums_of_squares, tensors);
}

// ---- random values, and moving values
void ProfiledBackend::fill_normal(RandomKey key, double mean, double deviation, Out y) {
  run("fill_normal", {}, &Backend::fill_normal, key, mean, deviation, y);
}
void ProfiledBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  run("fill_uniform", {}, &Backend::fill_uniform, key, low, high, y);
}
void ProfiledBackend::copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y,
                                Rows to) {
  run_as("copy_rows", {.bytes = 2.0 * static_cast<double>(rows * width * size_of(x.dtype()))},
         &Backend::copy_rows, x, from, rows, width, y, to);
}
void ProfiledBackend::permute(In x, const std::vector<int>& order, Out y) {
  run("permute", {}, &Backend::permute, x, order, y);
}
void ProfiledBackend::gather(In x, In index, bool add, Out y) {
  run_as("gather", {.bytes = bytes_of(index) + (add ? 3 : 2) * bytes_of(y)}, &Backend::gather, x,
         index, add, y);
}
void ProfiledBackend::expand(In x, In index, Out y) {
  run("expand", {}, &Backend::expand, x, index, y);
}

// ---- element by element
void ProfiledBackend::unary(Unary op, In x, Out y) { run("unary", {}, &Backend::unary, op, x, y); }
void ProfiledBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  // Reads x or y.
  run_as("unary_backward", {.bytes = 3 * bytes_of(dx)}, &Backend::unary_backward, op, x, y, dy, dx);
}
void ProfiledBackend::binary(Binary op, In a, In b, Out y) {
  run(std::string("binary ") + name_of(op), {}, &Backend::binary, op, a, b, y);
}
void ProfiledBackend::affine(In x, double scale, double shift, Out y) {
  run("affine", {}, &Backend::affine, x, scale, shift, y);
}
void ProfiledBackend::scale_by(In factor, Out x) {
  // The factor is 1 while a network trains, which costs no pass over x.
  run_as("scale_by", {.bytes = bytes_of(factor)}, &Backend::scale_by, factor, x);
}
void ProfiledBackend::accumulate(In x, Out y) {
  run("accumulate", {.bytes = bytes_of(y)}, &Backend::accumulate, x, y);
}
void ProfiledBackend::dropout(In x, double p, RandomKey key, Out y) {
  run("dropout", {}, &Backend::dropout, x, p, key, y);
}
void ProfiledBackend::bias_gelu(In x, In bias, Out y) {
  run("bias_gelu", {}, &Backend::bias_gelu, x, bias, y);
}
void ProfiledBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  run("bias_gelu_backward", {}, &Backend::bias_gelu_backward, x, bias, dy, dx, dbias);
}

// ---- reductions
void ProfiledBackend::reduce(Reduction op, In x, Out y) {
  run(op == Reduction::sum ? "reduce sum" : "reduce max", {}, &Backend::reduce, op, x, y);
}
void ProfiledBackend::max_backward(In x, In y, In dy, Out dx) {
  run("max_backward", {}, &Backend::max_backward, x, y, dy, dx);
}
double ProfiledBackend::sum_of_squares(In x) {
  return run("sum_of_squares", {}, &Backend::sum_of_squares, x);
}

// ---- values as bytes
bool ProfiledBackend::quantize(In x, Quantizer how, RandomKey key, Out bytes) {
  return run("quantize", {}, &Backend::quantize, x, how, key, bytes);
}
void ProfiledBackend::dequantize(In bytes, Quantizer how, Out y) {
  run("dequantize", {}, &Backend::dequantize, bytes, how, y);
}
Magnitude ProfiledBackend::magnitude(In x, std::int64_t k) {
  return run("magnitude", {}, &Backend::magnitude, x, k);
}
Selected ProfiledBackend::select(In x, Selection which, Out bytes) {
  return run("select", {}, &Backend::select, x, which, bytes);
}
void ProfiledBackend::collect(In x, Out bytes) {
  run("collect", {.bytes = bytes_of(bytes)}, &Backend::collect, x, bytes);
}
void ProfiledBackend::scatter(In bytes, Out y) { run("scatter", {}, &Backend::scatter, bytes, y); }

// ---- optimizers
namespace {

/// Bytes of some tensors' elements in these segments, once for each time that a tensor is listed.
double bytes_in(const Segments& segments, const std::vector<Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const Segment& segment : segments)
    for (const Tensor& x : tensors) bytes += (segment.last - segment.first) * size_of(x.dtype());
  return static_cast<double>(bytes);
}

}  // namespace

// A step reads and writes moments and master; weights are another tensor, or the master's writing.
void ProfiledBackend::sgd(const SgdStep& step, const Segments& segments, In gradient, Out momentum,
                          Out master, Out weights) {
  std::vector<Tensor> passes{gradient, momentum, momentum, master, weights};
  if (weights.raw() != master.raw()) passes.push_back(master);
  run_as("sgd", {.bytes = bytes_in(segments, passes)}, &Backend::sgd, step, segments, gradient,
         momentum, master, weights);
}
void ProfiledBackend::adamw(const AdamWStep& step, const Segments& segments, In gradient, Out m,
                            Out v, Out master, Out weights) {
  std::vector<Tensor> passes{gradient, m, m, v, v, master, weights};
  if (weights.raw() != master.raw()) passes.push_back(master);
  run_as("adamw", {.bytes = bytes_in(segments, passes)}, &Backend::adamw, step, segments, gradient,
         m, v, master, weights);
}

}  // namespace plangrad::autograd
