// Attention and its gradient for heads of 64 values, by the instructions that GPUs of compute
// capability 9.0 have: four warps multiply 64 rows at once, and read the right operand from shared
// memory by themselves, so that no warp loads fragments of it. Its device code compiles for sm_90a.
// Not here: the kernels that use these products (flash_forward.h, flash_backward.h).
// Chapter 12; PTX ISA, asynchronous warpgroup-level matrix instructions; Shah et al. 2024,
// "FlashAttention-3".
#include "cuda/backend/flash_backward.h"
#include "cuda/backend/flash_forward.h"

namespace plangrad::cuda {

/// For heads of 64 values, whose rows have the 128 bytes that wgmma swizzles, and tiles of 64 rows.
/// Own rows must not be kept: nvcc 13.0 lets other values take their registers in a loop. Left
/// operands live in registers until `finish`, which only nvcc can see to; 13.0 does.
struct GroupProducts {
  static constexpr int warps = 8;
  static constexpr bool by_group = true;
  template <int D>
  static constexpr int pitch = D;
  /// Piece j of 16 bytes of row r is at place j ^ (r % 8), so that columns are in different banks.
  template <int D>
  static __device__ int place(int row, int column) {
    static_assert(D == 64);
    return row * D + ((column / 8) ^ (row % 8)) * 8;
  }
  template <int D>
  static __device__ const Bf16* fragment_at(const Bf16* corner, int, int k) {
    return reinterpret_cast<const Bf16*>(reinterpret_cast<std::uintptr_t>(corner) ^ (32 * k));
  }
  /// Tiles begin at multiples of 1024 bytes, where the pattern of places does.
  static __device__ Bf16* first_tile(Bf16* shared) {
    const auto past = reinterpret_cast<std::uintptr_t>(shared) % 1024;
    return shared + (1024 - past) % 1024 / sizeof(Bf16);
  }
  static __device__ void publish() { fence_shared(); }
  static __device__ auto matrix(const Bf16* first) { return describe(first, 16, 8 * 128); }

  /// sums += a b^T                                                  a (16,D), b (N,D), sums (16,N)
  template <int N, int R, int D, bool kept>
  static __device__ void multiply_transposed(const OwnRows<GroupProducts, R, D, kept>& a,
                                             const Bf16* b, Fragments<R, N>& sums) {
    static_assert(R == 1 && N == 64);
    unsigned left[D / 16][4];
    PG_UNROLL
    for (int k = 0; k < D / 16; ++k) a.get(0, k, left[k]);
    wgmma_fence();
    PG_UNROLL
    for (int k = 0; k < D / 16; ++k) wgmma_64x64x16<true>(sums[0], left[k], matrix(b + 16 * k));
  }
  /// sums += a b, with a's fragments rounded to bf16.               a (16,N), b (N,D), sums (16,D)
  template <int N, int D, int R>
  static __device__ void multiply(const Fragments<R, N>& a, const Bf16* b, Fragments<R, D>& sums) {
    unsigned left[N / 16][4];
    PG_UNROLL
    for (int k = 0; k < N / 16; ++k) round_fragments(a[0], k, left[k]);
    wgmma_fence();
    PG_UNROLL
    for (int k = 0; k < N / 16; ++k)
      wgmma_64x64x16<false>(sums[0], left[k], matrix(b + 16 * k * pitch<D>));
  }

  template <class... Sums>
  static __device__ void start(Sums&... sums) {
    (pin(sums[0]), ...);
  }
  template <class... Sums>
  static __device__ void finish(Sums&... sums) {
    wgmma_commit();
    wgmma_wait<0>();
    (pin(sums[0]), ...);
  }
};

void hopper_attention(const AttentionWork& work) {
  work.dqkv.defined() ? run_flash_backward<GroupProducts, hopper_head>(work)
                      : run_flash<GroupProducts, hopper_head>(work);
}

}  // namespace plangrad::cuda
