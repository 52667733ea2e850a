// The list of the ladders and their rungs. A new rung is a file and an entry here.
// Not here: kernels. The ideas and limits are told at length in chapter 12.
#include "cuda/ladder/rungs.h"

#include <cmath>

#include "cuda/ladder/ladder.h"

namespace paragrad::cuda::ladder {

namespace {

/// Bound of the error of one rounding to f32, relative.
const double half_ulp = std::ldexp(1.0, -24);

template <class T>
const T* input(const Operands& operands, int i) {
  return static_cast<const T*>(operands.inputs.at(i));
}

// ---- matrix products: sizes m, n, k ------------------------------------------------------------

template <class T, void matmul(const ProductOf<T>&, cudaStream_t)>
void product(const Operands& o, cudaStream_t stream) {
  const auto [m, n, k] = o.sizes;
  matmul({input<T>(o, 0), input<T>(o, 1), o.output, m, n, k}, stream);
}

Ladder products() {
  const std::string file = "cuda/ladder/matmul_";
  return {"matmul",
          "c = a b",
          {"m", "n", "k"},
          {128, 128, 128},
          {4096, 4096, 4096},
          [](const Sizes& s) -> std::vector<std::int64_t> {
            return {std::int64_t{s[0]} * s[2], std::int64_t{s[2]} * s[1]};
          },
          [](const Sizes& s) { return std::int64_t{s[0]} * s[1]; },
          [](const Sizes& s) { return 2.0 * s[0] * s[1] * s[2]; },
          [](const Sizes& s) { return (s[2] + 1.0) * s[2] * half_ulp; },
          {{1, "plain", file + "1_plain.cu", "one thread for each element of c",
            "device memory: two reads for a multiplication", product<float, matmul_plain>},
           {2, "tiled", file + "2_tiled.cu", "a block shares tiles of 16 x 16",
            "shared memory: two reads for a multiplication", product<float, matmul_tiled>},
           {3, "registers", file + "3_registers.cu", "a thread computes 8 x 8 elements",
            "waiting: loads of 4 bytes, then work, then loads", product<float, matmul_registers>},
           {4, "async", file + "4_async.cu",
            "16 bytes in one load; tiles arrive while others are multiplied",
            "multiplications in f32", product<float, matmul_async>},
           {5, "tensor_cores", file + "5_tensor_cores.cu",
            "a warp multiplies small matrices in one instruction, in bf16",
            "waiting: two buffers are too few", product<__nv_bfloat16, matmul_tensor_cores>, 2}}};
}

// ---- layer norm: sizes rows, width -------------------------------------------------------------

template <void layer_norm(const LayerNorm&, cudaStream_t)>
void norm(const Operands& o, cudaStream_t stream) {
  layer_norm({input<float>(o, 0), input<float>(o, 1), input<float>(o, 2), o.output, o.sizes[0],
              o.sizes[1], layer_norm_epsilon},
             stream);
}

Ladder layer_norms() {
  const std::string file = "cuda/ladder/layer_norm_";
  return {
      "layer_norm",
      "y = (x - mean) / sqrt(variance + epsilon) * weight + bias, for each row of x",
      {"rows", "width"},
      {64, 256},
      {65536, 1024},
      [](const Sizes& s) -> std::vector<std::int64_t> {
        return {std::int64_t{s[0]} * s[1], s[1], s[1]};
      },
      [](const Sizes& s) { return std::int64_t{s[0]} * s[1]; },
      [](const Sizes& s) { return 8.0 * s[0] * s[1]; },
      // Mean and variance are sums of `width` numbers; the deviation, 1/2 at least, divides errors.
      [](const Sizes& s) { return 4 * (s[1] + 8.0) * 9 * half_ulp; },
      {{1, "plain", file + "1_plain.cu", "one thread for each row",
        "device memory: neighbouring threads read far from each other", norm<layer_norm_plain>},
       {2, "warp", file + "2_warp.cu", "one warp for each row",
        "device memory: each row is read three times", norm<layer_norm_warp>},
       {3, "registers", file + "3_registers.cu",
        "a warp keeps its row in registers, and reads 16 bytes at a time",
        "device memory: the least bytes", norm<layer_norm_registers>}}};
}

}  // namespace

double Ladder::least_bytes(const Rung& rung, const Sizes& sizes) const {
  double bytes = 4.0 * output(sizes);
  for (std::int64_t elements : inputs(sizes)) bytes += double(rung.input_bytes) * elements;
  return bytes;
}

const std::vector<Ladder>& ladders() {
  static const std::vector<Ladder> all = {products(), layer_norms()};
  return all;
}

}  // namespace paragrad::cuda::ladder
