// Attention, rung 3: tensor cores. A warp has 16 queries. The fragments of scores that it computes
// have the layout of the next product's left factor, so they never leave registers.
// Not here: copies during multiplications, masks, gradients: cuda/backend/flash_forward.h.
// Dao 2023, "FlashAttention-2".
#include <cmath>
#include <cstring>

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

using bf16 = __nv_bfloat16;

constexpr int D = Attention::size, queries = 64, keys = 64, padding = 8;
constexpr int threads = queries / 16 * 32;
using Tile = bf16[keys][D + padding];
using Sums = float[D / 8][4];  // 16 rows and 64 columns of a warp, as mma_16816 lays them out

/// Rounds two numbers to bf16; `low` comes first in memory.
__device__ unsigned rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// scores += q k^T, of 16 queries from `row` on                          q, k (64,D)
__device__ void multiply_transposed(const Tile& q, int row, const Tile& k, Sums& scores) {
  const int lane = threadIdx.x % 32;
  PG_UNROLL
  for (int i = 0; i < D; i += 16) {
    unsigned of_q[4], of_k[4];
    ldmatrix_x4(of_q, &q[row + lane % 16][i + lane / 16 * 8]);
    PG_UNROLL
    for (int n = 0; n < keys; n += 16) {
      ldmatrix_x4(of_k, &k[n + lane % 8 + lane / 16 * 8][i + lane / 8 % 2 * 8]);
      mma_16816(scores[n / 8], of_q, {of_k[0], of_k[1]});
      mma_16816(scores[n / 8 + 1], of_q, {of_k[2], of_k[3]});
    }
  }
}

/// sums += shares v, with shares rounded to bf16                          v (64,D)
__device__ void multiply(const Sums& shares, const Tile& v, Sums& sums) {
  const int lane = threadIdx.x % 32;
  PG_UNROLL
  for (int i = 0; i < keys; i += 16) {
    const auto &low = shares[i / 8], &high = shares[i / 8 + 1];
    const unsigned left[4] = {rounded_pair(low[0], low[1]), rounded_pair(low[2], low[3]),
                              rounded_pair(high[0], high[1]), rounded_pair(high[2], high[3])};
    PG_UNROLL
    for (int n = 0; n < D; n += 16) {
      unsigned of_v[4];
      ldmatrix_x4_transposed(of_v, &v[i + lane % 16][n + lane / 16 * 8]);
      mma_16816(sums[n / 8], left, {of_v[0], of_v[1]});
      mma_16816(sums[n / 8 + 1], left, {of_v[2], of_v[3]});
    }
  }
}

/// Turns 64 scores of each row into shares, and scales the sums so far down. A lane has numbers of
/// two rows; four neighbouring lanes have all of a row.
__device__ void add(float scale, int left, float (&largest)[2], float (&sum)[2], Sums& scores,
                    Sums& sums) {
  const int column = threadIdx.x % 4 * 2;
  PG_UNROLL
  for (int i = 0; i < D / 2; ++i) {  // keys after the last one have no share
    float& score = scores[i / 4][i % 4];
    score = i / 4 * 8 + column + i % 2 < left ? scale * score : -INFINITY;
  }
  PG_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float before = largest[half];
    PG_UNROLL
    for (int i = 0; i < D / 4; ++i)
      largest[half] = max(largest[half], scores[i / 2][2 * half + i % 2]);
    largest[half] = warp_max<4>(largest[half]);
    const float shrink = expf(before - largest[half]);
    sum[half] *= shrink;
    PG_UNROLL
    for (int i = 0; i < D / 4; ++i) {
      float& score = scores[i / 2][2 * half + i % 2];
      score = expf(score - largest[half]);
      sum[half] += score;
      sums[i / 2][2 * half + i % 2] *= shrink;
    }
  }
}

__global__ void __launch_bounds__(threads) attention_tensor_cores_kernel(AttentionOf<bf16> a) {
  alignas(16) __shared__ Tile q, k, v;
  const int first = blockIdx.x * queries, head = blockIdx.y * a.time;
  const int row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  auto begin = [&](Tile& tile, const bf16* matrix, int start) {
    copy_tile<D>(tile, matrix + head * D, a.time, D, start, 0);
  };
  begin(q, a.q, first);
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  Sums sums = {};
  for (int start = 0; start < a.time; start += keys) {
    begin(k, a.k, start);
    begin(v, a.v, start);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    Sums scores = {};
    multiply_transposed(q, row, k, scores);
    add(a.scale(), a.time - start, largest, sum, scores, sums);
    multiply(scores, v, sums);
    __syncthreads();  // all threads have read the tiles
  }
  PG_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float inverse = 1 / warp_sum<4>(sum[half]);
    const int query = first + row + lane / 4 + 8 * half;
    PG_UNROLL
    for (int i = 0; i < D / 4; ++i)
      if (query < a.time)
        a.y[(head + query) * D + i / 2 * 8 + lane % 4 * 2 + i % 2] =
            sums[i / 2][2 * half + i % 2] * inverse;
  }
}

}  // namespace

void attention_tensor_cores(const AttentionOf<bf16>& a, cudaStream_t stream) {
  launch(attention_tensor_cores_kernel, dim3(blocks_for(a.time, queries), a.heads), dim3(threads),
         0, stream, a);
}

}  // namespace plangrad::cuda::kernels
