// What kernels are asked for beside tensors, and what they answer: functions, patterns, windows,
// encodings, steps of optimizers.
// Not here: the kernels (autograd/kernels.h), and formulas that they share (formulas.h).
// Chapters 02, 10 and 11.
#pragma once

#include <cmath>

#include "autograd/tensor.h"

namespace plangrad::autograd {

enum class Unary { negate, exp, log, sqrt, tanh, relu, gelu };
enum class Binary { add, subtract, multiply, divide };
enum class Reduction { sum, max };

/// The places of a sparse matrix's elements in compressed sparse rows: row r of the (M,K) matrix
/// has elements [offsets[r], offsets[r+1]), in ascending columns.
struct SparsePattern {
  Tensor offsets;          ///< i32 (M+1)
  Tensor columns;          ///< i32, one for each element
  std::int64_t width = 0;  ///< K
  Tensor source = {};      ///< i32, in a transposed pattern: the place of each element's value
                           ///< among the values; undefined if values are in element order

  std::int64_t rows() const { return offsets.numel() - 1; }
  std::int64_t elements() const { return columns.numel(); }
};

/// A window of height x width that slides over an image.
struct Window {
  int height = 1, width = 1, stride = 1, padding = 0;
};

// ---- Codecs and pruning

/// Max-min quantization: 2^bits levels between the extremes of each bucket (Markov et al. 2022).
struct Quantizer {
  int bits = 4;                ///< 1 to 8
  std::int64_t bucket = 1024;  ///< elements; the last bucket may have fewer
  bool stochastic = false;     ///< round at random without bias; else to the nearest level
};

/// The k-th largest magnitude of a tensor's elements.
struct Magnitude {
  double value = 0;        ///< infinite if an element is not finite
  std::int64_t equal = 0;  ///< number of elements with this magnitude among the k largest
};

/// Selects elements for a sparse message, in index order, from `first` to the end and on from 0.
struct Selection {
  double threshold = 0;    ///< selects all elements with |x| > threshold
  std::int64_t equal = 0;  ///< selects this many elements with |x| == threshold, the first ones
  std::int64_t first = 0;
};
/// The result of a selection.
struct Selected {
  bool finite = true;
  std::int64_t left = -1;  ///< first element for which the message had no slot; -1: none
};

// ---- Optimizers

/// Elements [first, last) of flat buffers, which an optimizer's step treats alike.
struct Segment {
  std::int64_t first, last;
  bool decays = true;
};
using Segments = std::vector<Segment>;

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

  // Factors of the kernel's update:  w <- shrink w - rate m / (sqrt(v) correction + epsilon)
  double shrink() const { return 1 - learning_rate * weight_decay; }
  double rate() const { return learning_rate / (1 - std::pow(beta1, static_cast<double>(step))); }
  double correction() const {
    return 1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(step)));
  }
};

}  // namespace plangrad::autograd
