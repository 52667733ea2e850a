// The list of the ladders and their rungs. A new rung is a file and an entry here.
// Not here: kernels. The ideas and limits are told at length in chapter 12.
#include "tutorials/kernels/rungs.h"

#include <cmath>

#include "cuda/launch/runtime.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

using bf16 = __nv_bfloat16;

/// Bound of the error of one rounding to f32, relative.
const double half_ulp = std::ldexp(1.0, -24);

template <class T>
const T* input(const Operands& operands, int i) {
  return static_cast<const T*>(operands.inputs.at(i));
}

std::int64_t no_scratch(const Sizes&) { return 0; }

// ---- matrix products: sizes m, n, k ------------------------------------------------------------

template <class T, void matmul(const ProductOf<T>&, cudaStream_t)>
void product(const Operands& o, cudaStream_t stream) {
  const auto [m, n, k] = o.sizes;
  matmul({input<T>(o, 0), input<T>(o, 1), o.output, m, n, k}, stream);
}

Ladder products() {
  const std::string file = "tutorials/kernels/matmul_";
  return {
      "matmul",
      "c = a b",
      {"m", "n", "k"},
      {128, 128, 128},
      {4096, 4096, 4096},
      [](const Sizes& s) -> std::vector<std::int64_t> {
        return {std::int64_t{s[0]} * s[2], std::int64_t{s[2]} * s[1]};
      },
      [](const Sizes& s) { return std::int64_t{s[0]} * s[1]; },
      no_scratch,
      [](const Sizes& s) { return 2.0 * s[0] * s[1] * s[2]; },
      [](const Sizes& s, int) { return (s[2] + 1.0) * s[2] * half_ulp; },
      {{1, "plain", file + "1_plain.cu", "one thread for each element of c",
        "device memory: neighbouring threads read far from each other",
        product<float, matmul_plain>},
       {2, "coalesced", file + "2_coalesced.cu", "neighbouring threads read neighbouring elements",
        "the caches: two reads for a multiplication", product<float, matmul_coalesced>},
       {3, "tiled", file + "3_tiled.cu", "a block shares tiles of 16 x 16",
        "shared memory: two reads for a multiplication", product<float, matmul_tiled>},
       {4, "registers", file + "4_registers.cu", "a thread computes 8 x 8 elements",
        "shared memory: loads of 4 bytes", product<float, matmul_registers>},
       {5, "vectors", file + "5_vectors.cu", "16 bytes in one load",
        "shared memory: a warp reads 144 numbers for 2048 multiplications",
        product<float, matmul_vectors>},
       {6, "warp_tiles", file + "6_warp_tiles.cu", "a warp computes 64 x 32 elements",
        "shared memory: bank conflicts", product<float, matmul_warp_tiles>},
       {7, "padding", file + "7_padding.cu", "rows are padded: no bank conflicts",
        "waiting: loads, then work, then loads", product<float, matmul_padding>},
       {8, "async", file + "8_async.cu", "tiles arrive while others are multiplied",
        "multiplications in f32", product<float, matmul_async>},
       {9, "tensor_cores", file + "9_tensor_cores.cu",
        "a warp multiplies small matrices in one instruction, in bf16",
        "waiting: two buffers are too few", product<bf16, matmul_tensor_cores>, 2},
       {10, "stages", file + "10_stages.cu", "three steps' tiles are on their way",
        "device memory: blocks that run together share little", product<bf16, matmul_stages>, 2},
       {11, "block_order", file + "11_block_order.cu",
        "blocks that run together form a square of tiles",
        "instructions: a warp loads and multiplies by turns", product<bf16, matmul_block_order>, 2},
       {12, "hopper", file + "12_hopper.cu",
        "TMA copies tiles, and four warps multiply them where they lie",
        "tensor cores, but for the ends of blocks", product<bf16, matmul_hopper>, 2, true}}};
}

template <void run(const Epilogue&, cudaStream_t)>
void epilogue(const Operands& o, cudaStream_t stream) {
  const auto [m, n, k] = o.sizes;
  run({{input<bf16>(o, 0), input<bf16>(o, 1), o.output, m, n, k}, input<bf16>(o, 2)}, stream);
}

Ladder epilogues() {
  Ladder ladder = products();
  const std::string file = "tutorials/kernels/epilogue_";
  ladder.name = "epilogue";
  ladder.formula = "c = gelu(a b + bias)";
  ladder.inputs = [](const Sizes& s) -> std::vector<std::int64_t> {
    return {std::int64_t{s[0]} * s[2], std::int64_t{s[2]} * s[1], s[1]};
  };
  ladder.flops = [](const Sizes& s) { return (2.0 * s[2] + 10) * s[0] * s[1]; };
  // GELU's slope is at most 1.13; tanh and what leads to it add some roundings.
  ladder.tolerance = [](const Sizes& s, int) {
    return (1.13 * (s[2] + 2.0) + 16) * (s[2] + 1) * half_ulp;
  };
  ladder.rungs = {
      {1, "apart", file + "1_apart.cu", "a second kernel adds the bias and applies GELU",
       "device memory: c is read and written once more", epilogue<epilogue_apart>, 2},
      {2, "fused", file + "2_fused.cu", "the product's threads apply both to their sums",
       "as the product", epilogue<epilogue_fused>, 2}};
  return ladder;
}

// ---- layer norm: sizes rows, width -------------------------------------------------------------

template <void layer_norm(const LayerNorm&, cudaStream_t)>
void norm(const Operands& o, cudaStream_t stream) {
  layer_norm({input<float>(o, 0), input<float>(o, 1), input<float>(o, 2), o.output, o.sizes[0],
              o.sizes[1], layer_norm_epsilon},
             stream);
}

Ladder layer_norms() {
  const std::string file = "tutorials/kernels/layer_norm_";
  return {
      "layer_norm",
      "y = (x - mean) / deviation * weight + bias, for each row of x",
      {"rows", "width"},
      {64, 256},
      {65536, 1024},
      [](const Sizes& s) -> std::vector<std::int64_t> {
        return {std::int64_t{s[0]} * s[1], s[1], s[1]};
      },
      [](const Sizes& s) { return std::int64_t{s[0]} * s[1]; },
      no_scratch,
      [](const Sizes& s) { return 8.0 * s[0] * s[1]; },
      // Mean and variance are sums of `width` numbers; the deviation, 1/2 at least, divides errors.
      [](const Sizes& s, int) { return 4 * (s[1] + 8.0) * 9 * half_ulp; },
      {{1, "plain", file + "1_plain.cu", "one thread for each row",
        "device memory: neighbouring threads read far from each other", norm<layer_norm_plain>},
       {2, "warp", file + "2_warp.cu", "one warp for each row",
        "device memory: each row is read three times", norm<layer_norm_warp>},
       {3, "registers", file + "3_registers.cu",
        "a warp keeps its row in registers, and reads 16 bytes at a time",
        "device memory: the least bytes", norm<layer_norm_registers>}}};
}

// ---- softmax: sizes rows, width ----------------------------------------------------------------

template <void run(const Softmax&, cudaStream_t)>
void softmax(const Operands& o, cudaStream_t stream) {
  run({input<float>(o, 0), o.output, o.sizes[0], o.sizes[1]}, stream);
}

Ladder softmaxes() {
  Ladder ladder = layer_norms();
  const std::string file = "tutorials/kernels/softmax_";
  ladder.name = "softmax";
  ladder.formula = "y = e^x / sum of e^x, for each row of x";
  ladder.inputs = [](const Sizes& s) -> std::vector<std::int64_t> {
    return {std::int64_t{s[0]} * s[1]};
  };
  ladder.flops = [](const Sizes& s) { return 5.0 * s[0] * s[1]; };
  // Shares are at most e^2 / width.
  ladder.tolerance = [](const Sizes& s, int) { return (4 * s[1] + 16) * half_ulp * 7.4 / s[1]; };
  ladder.rungs = {
      {1, "plain", file + "1_plain.cu", "one thread for each row, in three passes",
       "device memory: neighbouring threads read far from each other", softmax<softmax_plain>},
      {2, "online", file + "2_online.cu", "the largest number and the sum in one pass",
       "device memory, as before, with a third less to read", softmax<softmax_online>},
      {3, "warp", file + "3_warp.cu", "one warp for each row",
       "device memory: each row is read twice", softmax<softmax_warp>},
      {4, "registers", file + "4_registers.cu",
       "a warp keeps its row in registers, and reads 16 bytes at a time",
       "device memory: the least bytes", softmax<softmax_registers>}};
  return ladder;
}

// ---- sums of columns: sizes rows, columns ------------------------------------------------------

template <void run(const ColumnSum&, cudaStream_t)>
void column_sum(const Operands& o, cudaStream_t stream) {
  run({input<float>(o, 0), o.output, o.scratch, o.sizes[0], o.sizes[1]}, stream);
}

Ladder column_sums() {
  const std::string file = "tutorials/kernels/column_sum_";
  return {"column_sum",
          "y = the sum of the rows of x",
          {"rows", "columns"},
          {300, 64},
          {65536, 768},
          [](const Sizes& s) -> std::vector<std::int64_t> { return {std::int64_t{s[0]} * s[1]}; },
          [](const Sizes& s) { return std::int64_t{s[1]}; },
          [](const Sizes& s) {
            return (s[0] + ColumnSum::part_rows - 1) / ColumnSum::part_rows * std::int64_t{s[1]};
          },
          [](const Sizes& s) { return 1.0 * s[0] * s[1]; },
          [](const Sizes& s, int) { return 1.0 * s[0] * s[0] * half_ulp; },
          {{1, "plain", file + "1_plain.cu", "one thread for each column",
            "waiting: too few threads", column_sum<column_sum_plain>},
           {2, "block", file + "2_block.cu", "eight warps for each 32 columns",
            "waiting: too few blocks", column_sum<column_sum_block>},
           {3, "parts", file + "3_parts.cu", "a block for each 128 rows, and a second pass",
            "instructions: loads of 4 bytes", column_sum<column_sum_parts>},
           {4, "vectors", file + "4_vectors.cu", "16 bytes in one load",
            "device memory: the least bytes", column_sum<column_sum_vectors>}}};
}

// ---- attention: sizes heads, time --------------------------------------------------------------

template <class T, void run(const AttentionOf<T>&, cudaStream_t)>
void attention(const Operands& o, cudaStream_t stream) {
  run({input<T>(o, 0), input<T>(o, 1), input<T>(o, 2), o.output, o.scratch, o.sizes[0], o.sizes[1]},
      stream);
}

Ladder attentions() {
  const std::string file = "tutorials/kernels/attention_";
  constexpr int D = Attention::size;
  const auto rows = [](const Sizes& s) { return std::int64_t{s[0]} * s[1] * D; };
  return {
      "attention",
      "y = softmax(q k^T / 8) v, for each head, of 64 elements",
      {"heads", "time"},
      {2, 96},
      {192, 1024},
      [](const Sizes& s) -> std::vector<std::int64_t> {
        return std::vector<std::int64_t>(3, std::int64_t{s[0]} * s[1] * D);
      },
      rows,
      [](const Sizes& s) { return std::int64_t{s[0]} * s[1] * s[1]; },
      [](const Sizes& s) { return (4.0 * D + 5) * s[0] * s[1] * s[1]; },
      // Scores are sums of 64 products over 8; bf16 rounds shares by 2^-9, too.
      [](const Sizes& s, int input_bytes) {
        const double f32 = (2 * D * (D + 2) / 8.0 + 2 * s[1] + 32) * half_ulp;
        return input_bytes == 4 ? f32 : f32 + std::ldexp(1.0, -9);
      },
      {{1, "plain", file + "1_plain.cu", "scores, shares and values by a kernel each",
        "device memory: the scores of all pairs", attention<float, attention_plain>},
       {2, "online", file + "2_online.cu", "one kernel, with an online softmax",
        "multiplications in f32, and loads from shared memory", attention<float, attention_online>},
       {3, "tensor_cores", file + "3_tensor_cores.cu",
        "fragments of scores are factors of the next product",
        "waiting: loads, then work, then loads", attention<bf16, attention_tensor_cores>, 2}}};
}

template <void run(const AttentionBackward&, cudaStream_t)>
void attention_backward(const Operands& o, cudaStream_t stream) {
  run({input<float>(o, 0), input<float>(o, 1), input<float>(o, 2), input<float>(o, 3), o.output,
       o.scratch, o.sizes[0], o.sizes[1]},
      stream);
}

Ladder attention_backwards() {
  Ladder ladder = attentions();
  const std::string file = "tutorials/kernels/attention_backward_";
  constexpr int D = Attention::size;
  ladder.name = "attention_backward";
  ladder.formula = "dq, dk and dv of attention, from dy";
  ladder.large = {96, 1024};
  ladder.inputs = [](const Sizes& s) -> std::vector<std::int64_t> {
    return std::vector<std::int64_t>(4, std::int64_t{s[0]} * s[1] * D);
  };
  ladder.output = [](const Sizes& s) { return std::int64_t{3} * s[0] * s[1] * D; };
  ladder.scratch = [](const Sizes& s) { return std::int64_t{2} * s[0] * s[1] * s[1]; };
  ladder.flops = [](const Sizes& s) { return (10.0 * D + 10) * s[0] * s[1] * s[1]; };
  // Shares are off as in attention. Their gradients, and y dy, are up to 64, and are sums of 64
  // products. A key has at most the shares of all queries.
  ladder.tolerance = [](const Sizes& s, int) {
    const double share = 2 * D * (D + 2) / 8.0 + 2 * s[1] + 32;
    const double slope = 3 * D * share + 2 * D * (D + 2) + 3.0 * D * s[1];
    return slope * s[1] / 8 * half_ulp;
  };
  ladder.rungs = {
      {1, "plain", file + "1_plain.cu", "pairs, slopes and sums by a kernel each",
       "device memory: two numbers of all pairs", attention_backward<attention_backward_plain>},
      {2, "recomputed", file + "2_recomputed.cu", "shares are computed again, for queries and keys",
       "multiplications in f32, and loads from shared memory",
       attention_backward<attention_backward_recomputed>}};
  return ladder;
}

}  // namespace

std::string Rung::why_not() const {
  if (!hopper) return "";
  if (hopper_is_absent) return hopper_is_absent;
  int device = 0, major = 0;
  PG_CUDA(cudaGetDevice(&device));
  PG_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 ? "" : file + " needs a GPU of compute capability 9.0";
}

double Ladder::least_bytes(const Rung& rung, const Sizes& sizes) const {
  double bytes = 4.0 * output(sizes);
  for (std::int64_t elements : inputs(sizes)) bytes += double(rung.input_bytes) * elements;
  return bytes;
}

const std::vector<Ladder>& ladders() {
  static const std::vector<Ladder> all = {products(),           epilogues(),   layer_norms(),
                                          softmaxes(),          column_sums(), attentions(),
                                          attention_backwards()};
  return all;
}

}  // namespace plangrad::cuda::kernels
