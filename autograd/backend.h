// Backend: the list of kernels that a device may have. To port paragrad is to write one of these.
// Not here: graphs and memory meters. A kernel reads tensors and writes tensors that exist already.
// Chapters 01 and 03.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace paragrad::autograd {

enum class Unary { negate, exp, log, sqrt, tanh, relu, gelu };
enum class Binary { add, subtract, multiply, divide };
enum class Reduction { sum, max };

/// Where the elements of a sparse matrix (M,K) stand, row by row: row r has elements
/// [offsets[r], offsets[r+1]), in columns that ascend (compressed sparse rows).
struct SparsePattern {
  Tensor offsets;          ///< i32 (M+1)
  Tensor columns;          ///< i32, one for each element
  std::int64_t width = 0;  ///< K
  Tensor source = {};      ///< i32, of a transposed pattern: where an element's value stands among
                           ///< the values; if undefined, they stand in the order of the elements

  std::int64_t rows() const { return offsets.numel() - 1; }
  std::int64_t elements() const { return columns.numel(); }
};

/// How N vectors of K values stand in a dense matrix: as its columns (K,N) or as its rows (N,K).
enum class Vectors { columns, rows };

/// How a window of H x W slides over an image.
struct Window {
  int height = 1, width = 1, stride = 1, padding = 0;
};

/// One step of SGD with momentum (Sutskever et al. 2013, in PyTorch's form).
struct SgdStep {
  double learning_rate = 0.1, momentum = 0.9, weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies every gradient: clipping, averaging
};

/// One step of AdamW (Loshchilov and Hutter 2019, algorithm 2).
struct AdamWStep {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies every gradient: clipping, averaging
  std::int64_t step = 1;      ///< counted from 1, for the bias correction

  // What a kernel multiplies with:  w <- shrink w - rate m / (sqrt(v) correction + epsilon)
  double shrink() const { return 1 - learning_rate * weight_decay; }
  double rate() const { return learning_rate / (1 - std::pow(beta1, static_cast<double>(step))); }
  double correction() const {
    return 1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(step)));
  }
};

/// Max-min quantization: 2^bits levels between the extremes of each bucket (Markov et al. 2022).
struct Quantizer {
  int bits = 4;                ///< 1 to 8
  std::int64_t bucket = 1024;  ///< elements; the last bucket may have fewer
  bool stochastic = false;     ///< rounding, unbiased; else to the nearest level
};

/// The k-th largest magnitude of a tensor's elements.
struct Magnitude {
  double value = 0;        ///< infinite if an element is not finite
  std::int64_t equal = 0;  ///< how many of the k largest have it
};

/// Elements for a sparse message, in the order of their index from `first` on, and round.
struct Selection {
  double threshold = 0;    ///< those with |x| > threshold,
  std::int64_t equal = 0;  ///< and the first so many with |x| == threshold
  std::int64_t first = 0;
};
struct Selected {
  bool finite = true;
  std::int64_t left = -1;  ///< the first one for which the message had no slot, if there is one
};

#pragma GCC diagnostic push  // a kernel that a backend does not override ignores its arguments
#pragma GCC diagnostic ignored "-Wunused-parameter"

/// A kernel that a backend does not override throws an Error that names kernel and device: what the
/// memory needs is the least that a backend has. Shapes are checked by the operations above
/// (autograd/ops). Results do not depend on the number of threads, as far as products by a library
/// allow: oneDNN's do with AVX-512 (autograd/cpu/onednn.cpp), and not without.
/// units: f32 and bf16 kernels compute in f32, f64 kernels in f64; bf16 results are rounded once
class Backend {
 public:
  using In = const Tensor&;   ///< a tensor whose values a kernel reads
  using Out = const Tensor&;  ///< a tensor that exists already, and whose values a kernel writes

  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Whether it computes with f64, too; the CPU does, for others.
  virtual bool has_f64() const { return true; }

  /// Called before and after each call of a kernel (see KernelCall), for devices that must know.
  /// Calls may be nested, and come from several threads.
  virtual void begin_kernel() {}
  virtual void end_kernel() {}

  /// Runs `work`. The device may hold its kernels back, to begin them together when it ends, or
  /// when it needs a value on the host.
  virtual void together(const std::function<void()>& work) { work(); }

  // Memory. Contents of fresh memory are undefined. Any thread may allocate, and free what another
  // has allocated.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void free(void* data, std::int64_t bytes) = 0;
  virtual void copy_from_host(const void* source, Out y) = 0;
  virtual void copy_to_host(In x, void* target) = 0;
  /// Same number of elements; types may differ (conversion).
  virtual void copy(In x, Out y) = 0;
  virtual void fill(double value, Out y) = 0;
  virtual void fill_normal(RandomKey key, double mean, double deviation, Out y) {
    no_kernel(__func__);
  }
  virtual void fill_uniform(RandomKey key, double low, double high, Out y) { no_kernel(__func__); }

  // Moving values. copy_rows: `rows` runs of `width` elements; run r starts at offset + r * pitch.
  struct Rows {
    std::int64_t offset = 0, pitch = 0;
  };
  virtual void copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y, Rows to) {
    no_kernel(__func__);
  }
  /// y's dimension i is x's dimension order[i].
  virtual void permute(In x, const std::vector<int>& order, Out y) { no_kernel(__func__); }
  /// y[i] = x[index[i]], or y[i] += x[index[i]]; x and y may differ in type. Indices (i32) ascend.
  /// throws: Error if one is outside x
  virtual void gather(In x, In index, bool add, Out y) { no_kernel(__func__); }
  /// y[index[i]] = x[i], and zero elsewhere: what gather reads back. Of one type.
  /// throws: Error if an index is outside y
  virtual void expand(In x, In index, Out y) { no_kernel(__func__); }

  // Element by element. binary broadcasts a and b to y's shape.
  virtual void unary(Unary op, In x, Out y) { no_kernel(__func__); }
  /// dx = dy * op'(x); y is op(x).
  virtual void unary_backward(Unary op, In x, In y, In dy, Out dx) { no_kernel(__func__); }
  virtual void binary(Binary op, In a, In b, Out y) { no_kernel(__func__); }
  /// y = scale * x + shift
  virtual void affine(In x, double scale, double shift, Out y) { no_kernel(__func__); }
  /// y += x; x may be of a narrower type.
  virtual void accumulate(In x, Out y) { no_kernel(__func__); }
  /// y = x / (1 - p) where uniform(key, i) >= p, else 0.
  virtual void dropout(In x, double p, RandomKey key, Out y) { no_kernel(__func__); }
  /// y = gelu(x + bias), in GPT-2's tanh form.                                x (R,C), bias (C)
  virtual void bias_gelu(In x, In bias, Out y) { no_kernel(__func__); }
  virtual void bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) { no_kernel(__func__); }

  // Reductions. y has x's rank, with size 1 along the reduced dimensions.
  virtual void reduce(Reduction op, In x, Out y) { no_kernel(__func__); }
  /// dx = dy where x is the maximum y, shared evenly between equal maxima; else 0.
  virtual void max_backward(In x, In y, In dy, Out dx) { no_kernel(__func__); }
  /// Sum of the squares of all elements, added up in f64.
  virtual double sum_of_squares(In x) { no_kernel(__func__); }
  /// The same of each tensor; a device is waited for once.
  virtual std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors) {
    std::vector<double> sums;
    for (const Tensor& x : tensors) sums.push_back(sum_of_squares(x));
    return sums;
  }

  // Matrices.
  /// c = op(a) op(b), or c += op(a) op(b); `bias` (N), where defined, is added to every row.
  /// op transposes its matrix where the flag says so.    op(a) (B,M,K), op(b) (B,K,N), c (B,M,N)
  struct Gemm {
    bool transpose_a = false, transpose_b = false;
    bool add = false;
  };
  virtual void gemm(Gemm how, In a, In b, In bias, Out c) { no_kernel(__func__); }

  // Sparse matrices.
  /// C = A B + bias, where A (M,K) is sparse. `b` holds the N columns of B, and `c` those of C, as
  /// `how` says.                                                                         bias (M)
  virtual void spmm(const SparsePattern& pattern, In values, Vectors how, In b, In bias, Out c) {
    no_kernel(__func__);
  }
  /// The elements of D B^T that a pattern (M,K) without source has: values[i] = sum_n D[r,n] B[k,n]
  /// where element i stands in row r and column k. `d` and `b` hold the columns of D and B as `how`
  /// says; the values are of gradient_dtype.
  virtual void sddmm(const SparsePattern& pattern, Vectors how, In d, In b, Out values) {
    no_kernel(__func__);
  }

  // Rows.                                                                            x, y (R,C)
  virtual void softmax(In x, Out y) { no_kernel(__func__); }
  virtual void softmax_backward(In y, In dy, Out dx) { no_kernel(__func__); }
  /// Also writes each row's mean and 1 / deviation, in statistic_dtype.           mean, inverse (R)
  virtual void layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean, Out inverse) {
    no_kernel(__func__);
  }
  virtual void layer_norm_backward(In x, In weight, In mean, In inverse, In dy, Out dx, Out dweight,
                                   Out dbias) {
    no_kernel(__func__);
  }
  /// loss[r] = log sum_c exp(logits[r,c]) - logits[r,target[r]]; normalizer[r] is the first term.
  /// throws: Error if a target is outside [0,C)
  virtual void cross_entropy(In logits, In targets, Out loss, Out normalizer) {
    no_kernel(__func__);
  }
  /// dlogits[r,c] = scale * dloss * (exp(logits[r,c] - normalizer[r]) - [c == target[r]])
  virtual void cross_entropy_backward(In logits, In targets, In normalizer, In dloss, double scale,
                                      Out dlogits) {
    no_kernel(__func__);
  }
  /// throws: Error if an id is outside the table                  table (V,C), ids (R), y (R,C)
  virtual void embedding(In table, In ids, Out y) { no_kernel(__func__); }
  virtual void embedding_backward(In ids, In dy, Out dtable) { no_kernel(__func__); }

  // Causal self-attention over packed queries, keys, values.
  //                                                     qkv (B,T,3C), y (B,T,C), normalizer (B,H,T)
  virtual void attention(In qkv, int heads, Out y, Out normalizer) { no_kernel(__func__); }
  virtual void attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
    no_kernel(__func__);
  }

  // Images.                                        x (N,C,H,W), weight (K,C,kh,kw), y (N,K,Ho,Wo)
  virtual void conv2d(In x, In weight, Window window, Out y) { no_kernel(__func__); }
  virtual void conv2d_backward_input(In dy, In weight, Window window, Out dx) {
    no_kernel(__func__);
  }
  virtual void conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
    no_kernel(__func__);
  }
  /// Also writes where in its image each maximum stood.                     index as y, in i32
  virtual void max_pool2d(In x, Window window, Out y, Out index) { no_kernel(__func__); }
  virtual void max_pool2d_backward(In dy, In index, Out dx) { no_kernel(__func__); }
  /// Padding counts as zeros, as PyTorch has it.
  virtual void average_pool2d(In x, Window window, Out y) { no_kernel(__func__); }
  virtual void average_pool2d_backward(In dy, Window window, Out dx) { no_kernel(__func__); }
  /// Mean and biased variance of each channel, in statistic_dtype.               mean, variance (C)
  virtual void batch_norm_statistics(In x, Out mean, Out variance) { no_kernel(__func__); }
  virtual void batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon,
                                Out y) {
    no_kernel(__func__);
  }
  /// Through the statistics as well, which are x's own.
  virtual void batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy,
                                   Out dx, Out dweight, Out dbias) {
    no_kernel(__func__);
  }

  // Values as bytes (parallel/codecs), of f32 or bf16; `bytes` is u8. What encodes says whether all
  // of x is finite; if not, the bytes have no meaning.
  /// For each bucket unit = (max - min) / (2^bits - 1) and min, in x's type; then every element's
  ///   level = min(floor((x - min) / unit + r), 2^bits - 1), or 0 if unit < 1e-10,
  /// with r = 1/2, or uniform(key, i) of element i: 8 levels in `bits` bytes, the first one lowest,
  /// and zeros up to a multiple of 8 bytes.
  virtual bool quantize(In x, Quantizer how, RandomKey key, Out bytes) { no_kernel(__func__); }
  /// y = min + unit * level
  virtual void dequantize(In bytes, Quantizer how, Out y) { no_kernel(__func__); }
  /// k: 1 to the number of elements
  virtual Magnitude magnitude(In x, std::int64_t k) { no_kernel(__func__); }
  /// Writes the indices (i32) of as many elements as there are slots, then their values; a slot
  /// that stays empty has index -1.
  virtual Selected select(In x, Selection which, Out bytes) { no_kernel(__func__); }
  /// Fills the values of the slots with x[index], 0 for an empty one: other values, same elements.
  virtual void collect(In x, Out bytes) { no_kernel(__func__); }
  /// y[index] = value for each slot; zero elsewhere.
  /// throws: Error if an index is outside y
  virtual void scatter(In bytes, Out y) { no_kernel(__func__); }

  // Optimizers. `master` is what the step is computed on; `weights`, where it is another tensor,
  // receives the result rounded to its type.
  virtual void sgd(const SgdStep& step, In gradient, Out momentum, Out master, Out weights) {
    no_kernel(__func__);
  }
  virtual void adamw(const AdamWStep& step, In gradient, Out first_moment, Out second_moment,
                     Out master, Out weights) {
    no_kernel(__func__);
  }

 protected:
  /// throws: Error, always
  [[noreturn]] void no_kernel(const char* kernel) const;
};

#pragma GCC diagnostic pop

/// The type in which gradients of weights of this type are computed and summed: bf16's is f32.
constexpr DType gradient_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }
/// The type of row statistics beside values of this type.
constexpr DType statistic_dtype(DType dtype) { return gradient_dtype(dtype); }

}  // namespace paragrad::autograd
