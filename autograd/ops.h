// Operations: each one checks shapes, calls a kernel, and records its gradient.
// Not here: gradients' formulas (autograd/ops, in the order of the headings below), kernels
// (autograd/kernels.h), layers with weights (nn/models). Chapters 01 and 02.
#pragma once

#include "autograd/graph.h"
#include "autograd/random.h"

namespace plangrad::autograd {

// ---- Arithmetic

/// a + b, element by element, after broadcasting by NumPy's rule; likewise for the operators below.
/// throws: Error if shapes do not broadcast or types differ
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }

/// scale * x + shift
Tensor affine(const Tensor& x, double scale, double shift = 0);
inline Tensor operator*(double scale, const Tensor& x) { return affine(x, scale); }

Tensor negate(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Tensor& x);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
/// source: Hendrycks and Gimpel 2016, section 2, as GPT-2 uses it
Tensor gelu(const Tensor& x);
/// gelu(x + bias) in one pass.
/// shapes: x (...,C), bias (C) -> (...,C)
Tensor bias_gelu(const Tensor& x, const Tensor& bias);

/// x / (1 - p) with probability 1 - p, else 0; uniform(key, i) decides for element i.
/// throws: Error unless 0 <= p < 1
/// source: Srivastava et al. 2014
Tensor dropout(const Tensor& x, double p, RandomKey key);

/// x in another floating-point type. The gradient is converted back to x's type.
Tensor cast(const Tensor& x, DType dtype);

// ---- Reductions

/// Sums all elements.                                                                 (...) -> ()
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);

/// Sums over the dimensions `axes`, which keep size 1; negative axes count from the end.
/// throws: Error if there is no such dimension
Tensor sum(const Tensor& x, const std::vector<int>& axes);
Tensor mean(const Tensor& x, const std::vector<int>& axes);
/// Maximum over the dimensions `axes`. Equal maxima share the gradient evenly.
Tensor max(const Tensor& x, const std::vector<int>& axes);

/// Sums over the dimensions that broadcasting stretches from `shape` to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- Layout: no strided views. Slices and transposes are copies; slices of rows share memory.

/// Gives x's values another shape; one size may be -1 and is inferred. Copies nothing.
/// throws: Error if the number of elements differs
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);

/// Dimension i of the result is dimension order[i] of x.
Tensor permute(const Tensor& x, const std::vector<int>& order);
/// Exchanges two dimensions.
Tensor transpose(const Tensor& x, int a = -2, int b = -1);

/// Elements [first, last) along `axis`. Along axis 0 the result shares x's storage.
/// throws: Error if the range is empty or not inside the dimension
Tensor slice(const Tensor& x, int axis, std::int64_t first, std::int64_t last);

/// Joins the parts along `axis`; other dimensions must agree.
Tensor concatenate(const std::vector<Tensor>& parts, int axis);

// ---- Matrix products

/// Whether matmul reads a matrix transposed.
struct Transposes {
  bool a = false, b = false;
};

/// op(a) op(b), matrix by matrix; op transposes the last two dimensions if `transposes` says so.
/// shapes: op(a) (...,M,K), op(b) (...,K,N) -> (...,M,N); leading dimensions equal, or b has none
/// throws: Error if inner sizes, leading dimensions or types differ
Tensor matmul(const Tensor& a, const Tensor& b, Transposes transposes = {});

/// x weight^T + bias; bias may be undefined.
/// shapes: x (...,In), weight (Out,In), bias (Out) -> (...,Out)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// ---- Rows

/// exp(x) / sum exp(x) along the last dimension.
Tensor softmax(const Tensor& x);

/// (x - mean) / sqrt(variance + epsilon) * weight + bias along the last dimension.
/// shapes: x (...,C), weight (C), bias (C) -> (...,C)
/// source: Ba, Kiros and Hinton 2016, eq. 4
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

/// x + a, and the layer norm of this sum, both made in one pass.
/// shapes: x and a (...,C), weight (C), bias (C) -> (...,C), (...,C)
struct SumAndNorm {
  Tensor sum, norm;
};
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& a, const Tensor& weight,
                          const Tensor& bias, double epsilon = 1e-5);

/// Softmax cross-entropy; probabilities are never stored.
///   loss = mean_r (log sum_c exp(logits[r,c]) - logits[r,target[r]])
/// shapes: logits (...,C), targets (...) of i32 -> (), in f32 where logits are bf16
/// units:  nats, mean over the rows
/// throws: Error if a target is outside [0,C)
/// source: Bishop 2006, eq. 4.108
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

/// cross_entropy(linear(x, weight), targets), a classifier's last product and its loss, as one
/// operation. Its logits are read only here, so their gradient takes their memory, and their rows
/// may be wider than there are classes.
/// shapes: x (...,In), weight (C,In), targets (...) of i32 -> (), in f32 where x is bf16
/// throws: Error as linear and cross_entropy do
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets);

/// Looks up row ids[r] of the table, for each r.
/// shapes: table (V,C), ids (...) of i32 -> (...,C)
/// throws: Error if an id is outside [0,V)
Tensor embedding(const Tensor& table, const Tensor& ids);

// ---- Attention

/// Causal self-attention, which never holds a T x T matrix for each head:
///   softmax(Q K^T / sqrt(C / heads), over positions up to the query's own) V
/// shapes: qkv (B,T,3C): queries, keys, values side by side, each cut into heads -> (B,T,C)
/// throws: Error if 3 * heads does not divide qkv's width
/// source: Vaswani et al. 2017, eq. 1; Dao et al. 2022 (FlashAttention)
Tensor attention(const Tensor& qkv, int heads);

// ---- Images

/// Cross-correlation of images with kernels, as PyTorch's conv2d without bias.
/// shapes: x (N,C,H,W), weight (K,C,kh,kw) -> (N,K,(H+2p-kh)/s+1,(W+2p-kw)/s+1)
/// throws: Error if channels differ or a kernel is larger than the padded image
Tensor conv2d(const Tensor& x, const Tensor& weight, int stride = 1, int padding = 0);

/// shapes: x (N,C,H,W) -> (N,C,(H+2p-size)/stride+1,...)
/// throws: Error if the window is larger than the padded image, or padding is over half of it
Tensor max_pool2d(const Tensor& x, int size, int stride, int padding = 0);
/// Averages windows as max_pool2d takes their maxima; padding counts as zeros.
Tensor average_pool2d(const Tensor& x, int size, int stride, int padding = 0);

/// Running mean and variance of the training images, which batch norm uses in evaluation.
struct RunningStatistics {
  Tensor mean, variance;  // (C), (C)
};

/// Normalises each channel over batch, height and width, then scales and shifts it. Training uses
/// the batch's own mean and biased variance; backward then hands the batch's mean and unbiased
/// variance to the leaves of `running` as their "gradients": running statistics travel and are
/// averaged like gradients, once per microbatch, in every schedule. Evaluation uses `running`.
/// shapes: x (N,C,H,W), weight (C), bias (C) -> (N,C,H,W)
/// throws: Error in training if a channel has only one value
/// source: Ioffe and Szegedy 2015, algorithm 1
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const RunningStatistics& running, bool training, double epsilon = 1e-5);

}  // namespace plangrad::autograd
