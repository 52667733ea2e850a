// Attention by tensor cores, and its gradient: products of tiles by single warps; calls the kernels
// for the size of a head.
// Not here: the kernels (flash_forward.h, flash_backward.h); those with Hopper's own instructions
// (attention_hopper.cu).
// Chapters 03 and 12; PTX ISA, matrix multiply-accumulate operation with mma.
#include "cuda/backend/flash_backward.h"
#include "cuda/backend/flash_forward.h"

namespace plangrad::cuda {

/// Products by single warps. A tile's rows are 8 elements longer, so that the 8 rows of a matrix
/// that ldmatrix loads at once are in different banks. With R = 2, each fragment of a tile that a
/// warp loads serves two products; registers allow that for some sizes only.
struct WarpProducts {
  static constexpr int warps = 4;
  static constexpr bool by_group = false;
  template <int D>
  static constexpr int pitch = D + 8;
  template <int D>
  static __device__ int place(int row, int column) {
    return row * pitch<D> + column;
  }
  /// The place of fragment (r,k), of 16 rows and columns, from that of fragment (0,0).
  template <int D>
  static __device__ const Bf16* fragment_at(const Bf16* corner, int r, int k) {
    return corner + 16 * r * pitch<D> + 16 * k;
  }
  static __device__ Bf16* first_tile(Bf16* shared) { return shared; }
  static __device__ void publish() {}

  /// sums += a b^T                                              a (16 R,D), b (N,D), sums (16 R,N)
  template <int N, int R, int D, bool kept>
  static __device__ void multiply_transposed(const OwnRows<WarpProducts, R, D, kept>& a,
                                             const Bf16* b, Fragments<R, N>& sums) {
    const int lane = threadIdx.x % 32;
    const Bf16* b_row = b + (lane % 8 + lane / 16 * 8) * pitch<D> + lane / 8 % 2 * 8;
    PG_UNROLL
    for (int k = 0; k < D / 16; ++k) {
      unsigned left[R][4], right[4];
      PG_UNROLL
      for (int r = 0; r < R; ++r) a.get(r, k, left[r]);
      PG_UNROLL
      for (int n = 0; n < N / 8; n += 2) {
        ldmatrix_x4(right, b_row + 8 * n * pitch<D> + 16 * k);
        PG_UNROLL
        for (int r = 0; r < R; ++r) {
          mma_16816(sums[r][n], left[r], {right[0], right[1]});
          mma_16816(sums[r][n + 1], left[r], {right[2], right[3]});
        }
      }
    }
  }

  /// sums += a b, with a's fragments rounded to bf16.           a (16 R,N), b (N,D), sums (16 R,D)
  template <int N, int D, int R>
  static __device__ void multiply(const Fragments<R, N>& a, const Bf16* b, Fragments<R, D>& sums) {
    const int lane = threadIdx.x % 32;
    const Bf16* b_row = b + lane % 16 * pitch<D> + lane / 16 * 8;
    PG_UNROLL
    for (int k = 0; k < N / 16; ++k) {
      unsigned left[R][4], right[4];
      PG_UNROLL
      for (int r = 0; r < R; ++r) round_fragments(a[r], k, left[r]);
      PG_UNROLL
      for (int n = 0; n < D / 8; n += 2) {
        ldmatrix_x4_transposed(right, b_row + 16 * k * pitch<D> + 8 * n);
        PG_UNROLL
        for (int r = 0; r < R; ++r) {
          mma_16816(sums[r][n], left[r], {right[0], right[1]});
          mma_16816(sums[r][n + 1], left[r], {right[2], right[3]});
        }
      }
    }
  }

  /// `start` and `finish` enclose products that may be computed together. Between them nothing
  /// reads or writes the sums and the operands.
  template <class... Sums>
  static __device__ void start(Sums&...) {}
  template <class... Sums>
  static __device__ void finish(Sums&...) {}
};

/// Whether the GPU has the instructions of attention_hopper.cu, which takes one size of heads.
static bool takes_hopper(const AttentionWork& work) {
  int major = 0;
  PG_CUDA(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, work.backend.ordinal()));
  return major == 9 && work.sizes.size == hopper_head;
}

void flash_attention(const AttentionWork& work) {
  if (takes_hopper(work)) return hopper_attention(work);
  autograd::dispatch<1, 8>(work.sizes.size / 16, [&]<int pieces>() {
    constexpr int D = 16 * pieces;
    work.dqkv.defined() ? run_flash_backward<WarpProducts, D>(work)
                        : run_flash<WarpProducts, D>(work);
  });
}

}  // namespace plangrad::cuda
