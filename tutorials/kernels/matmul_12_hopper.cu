// Matrix product, rung 12: Hopper's instructions. One thread lets TMA copy whole tiles; four warps
// multiply them together, straight from shared memory, without loading fragments.
// Not here: warps that only copy, clusters, a c that TMA writes: cuBLAS's further steps. This rung
// compiles for sm_90a only; the emulator, which has no TMA, can't run it.
// PTX ISA, asynchronous warpgroup-level matrix instructions; CUDA C++ Programming Guide, TMA.
#include "tutorials/kernels/block_order.h"
#include "tutorials/kernels/stages.h"
#include "tutorials/kernels/tma.h"

namespace plangrad::cuda::kernels {

const char* const hopper_is_absent = nullptr;

namespace {

constexpr int tile = 128, depth = 64, threads = 256, stages = 4;

/// The tiles of one step. A box of TMA has rows of 64 elements here, which it swizzles.
struct Boxes {
  bf16 a[tile][depth];
  bf16 b[2][depth][64];  // the tile's left and right half
};
constexpr int shared_bytes = stages * sizeof(Boxes) + 1024;  // room to begin at a multiple of 1024

__global__ void __launch_bounds__(threads)
    matmul_hopper_kernel(const __grid_constant__ CUtensorMap a,
                         const __grid_constant__ CUtensorMap b, float* c, int m, int n, int k,
                         int tile_rows, int tile_columns) {
  __shared__ CopyBarrier arrived[stages];
  char* shared = dynamic_shared<char>();
  Boxes* boxes = reinterpret_cast<Boxes*>(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int2 place = place_of(blockIdx.x, tile_rows, tile_columns);
  const int top = place.y * tile, left = place.x * tile, steps = (k + depth - 1) / depth;
  auto begin = [&](int step) {
    Boxes& to = boxes[step % stages];
    CopyBarrier& barrier = arrived[step % stages];
    barrier.expect(sizeof(Boxes));
    copy_box(to.a, a, top, step * depth, barrier);
    for (int half : {0, 1}) copy_box(to.b[half], b, step * depth, left + 64 * half, barrier);
  };
  if (threadIdx.x == 0) {
    for (CopyBarrier& barrier : arrived) barrier.init();
    fence_shared();
    for (int step = 0; step < min(stages, steps); ++step) begin(step);
  }
  __syncthreads();  // the barriers are initialised

  const int group = threadIdx.x / 128;  // of four warps, which have 64 rows
  float sums[64] = {};
  // [snippet steps]
  for (int step = 0; step < steps; ++step) {
    const Boxes& from = boxes[step % stages];
    arrived[step % stages].wait(step / stages % 2);
    wgmma_fence();
    PG_UNROLL
    for (int i = 0; i < depth; i += 16)
      wgmma_64x128x16(sums, describe(&from.a[64 * group][i], 16, 8 * sizeof(from.a[0])),
                      describe(from.b[0][i], sizeof(from.b[0]), 8 * sizeof(from.b[0][0])));
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();  // both groups have read the boxes
    if (threadIdx.x == 0 && step + stages < steps) begin(step + stages);
  }
  // [end snippet]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  PG_UNROLL
  for (int i = 0; i < 64; ++i) {
    const int row = top + 16 * warp + lane / 4 + i % 4 / 2 * 8;
    const int column = left + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < m && column < n) c[row * n + column] = sums[i];
  }
}

/// The driver's function that makes maps; programs that link the runtime alone have it from there.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  PG_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found));
  PG_CHECK(found == cudaDriverEntryPointSuccess,
           "matmul_hopper: this driver has no cuTensorMapEncodeTiled; it needs CUDA 12.0 or later");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

/// Describes a row-major matrix (height,width) to TMA, in boxes of (box_rows,64).
CUtensorMap map_of(const bf16* matrix, int height, int width, int box_rows) {
  static const auto encode = encode_function();
  const cuuint64_t sizes[] = {cuuint64_t(width), cuuint64_t(height)};
  const cuuint64_t pitch[] = {cuuint64_t(width) * sizeof(bf16)};
  const cuuint32_t box[] = {64, cuuint32_t(box_rows)}, every[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16*>(matrix), sizes, pitch,
             box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  PG_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled: error ", int(result));
  return map;
}

}  // namespace

void matmul_hopper(const ProductOf<bf16>& p, cudaStream_t stream) {
  PG_CHECK(
      p.k % 8 == 0 && p.n % 8 == 0 && aligned<8>(p.a) && aligned<8>(p.b),
      "matmul_hopper: TMA needs rows that begin at multiples of 16 bytes: expected n and k that "
      "are multiples of 8, and aligned matrices, got n = ",
      p.n, ", k = ", p.k, "; use matmul_block_order");
  const int tile_rows = blocks_for(p.m, tile), tile_columns = blocks_for(p.n, tile);
  launch_large(matmul_hopper_kernel, dim3(tile_rows * tile_columns), threads, shared_bytes, stream,
               map_of(p.a, p.m, p.k, tile), map_of(p.b, p.k, p.n, depth), p.c, p.m, p.n, p.k,
               tile_rows, tile_columns);
}

}  // namespace plangrad::cuda::kernels
