// The parts of a GPT's training step: which kernels belong to each, and the bytes that it needs.
// Not here: how kernels are counted (counted_step.cpp). Chapter 12.
#pragma once

#include <algorithm>

#include "nn/models/gpt.h"

namespace plangrad::benchmarks {

/// A part of the step, in bf16.
struct StepPart {
  std::string name;
  std::vector<std::string> kernels;  ///< their names begin so
  double least;                      ///< bytes that the operation must read and write
  double unfused;  ///< bytes if each kernel of an unfused step moves each operand once; 0: as least
};

/// X is the bytes of `rows` rows of activations, L the layers, P the parameters. For the least
/// bytes, residuals, GELU and sums of gradients are fused into what stands beside them, a bias
/// costs only the sum that is its gradient, and cross-entropy reads and writes logits once for both
/// directions.
inline std::vector<StepPart> parts_of(const nn::GptConfig& c, double rows, double P) {
  const double L = c.layers, X = rows * c.width * 2, logits = rows * c.vocabulary * 2;
  const double table = 1.0 * c.vocabulary * c.width, matrices = 12.0 * c.width * c.width;
  const double norms = 2 * L + 1;
  // Matrices of a block are (C,3C), (C,C), (C,4C) and (4C,C), so a pass over them reads and writes
  // 4 + 2 + 5 + 5 X; weights are read twice in bf16, and their gradient is written in f32.
  const double products = L * (3 * 16 * X + 8 * matrices) + 3 * (X + logits) + 8 * table;
  return {
      {"matrix products", {"gemm"}, products, products + 5 * L * X},
      {"biases and their gradients", {"add_bias", "reduce_column"}, 5 * L * X, 10 * L * X},
      {"attention, forward", {"flash_kernel", "forward_kernel"}, 4 * L * X, 0},
      {"attention, backward", {"flash_", "dot_row"}, 8 * L * X, 0},
      // Fused, a product also writes GELU's result, and another reads its argument.
      {"bias and GELU", {"bias_gelu"}, 8 * L * X, 20 * L * X},
      {"layer norm and residuals",
       {"layer_norm", "add_shares", "map_pack<8, plus"},
       (5 * norms + 6 * L) * X,
       (5 * norms + 12 * L) * X},
      {"cross-entropy",
       {"cross_entropy", "scale_kernel", "reduce_row", "map_pack<4, Affine",
        "map_pack<4, Constant"},
       2 * logits,
       3 * logits},
      {"embedding",
       {"embed", "combine_", "sum_rows_of_id", "copy_word", "sort_kernel", "number_row",
        "sum_part"},
       3 * X + 4 * std::min<double>(rows, c.vocabulary) * c.width,
       0},
      {"sums of gradients, and copies",
       {"memset", "map_pack<4, plus", "map_pack<4, identity", "copy"},
       0,
       16 * P},
      {"norm of the gradient",
       {"sum_of_squares", "sum_squares", "sum_kernel", "add_parts"},
       4 * P,
       0},
      {"AdamW", {"update_pack", "update_kernel"}, 30 * P, 0},
      {"the rest", {""}, 0, 0},
  };
}

}  // namespace plangrad::benchmarks
