// Convolution and its gradients as matrix products whose operands are read from the images: no
// matrix of patches is written. A block has 64 x 128 sums, and takes 32 (bf16) or 16 (f32) of their
// terms at a time, in two buffers: while it multiplies from one, each thread's next elements arrive
// in registers. bf16 goes to tensor cores; sums are in f32.
// Not here: how operands are gathered (convolution_tiles.h); products of matrices (gemm.cu).
// Chapters 03 and 12; Chetlur et al. 2014, "cuDNN", section 3; PTX ISA, mma.
#include <limits>

#include "cuda/backend/convolution_tiles.h"

namespace plangrad::cuda {

/// result[r,i] = sum over k of left[r,k] right[k,i]. If several blocks have a part of each sum,
/// part z is written below the parts before it.
template <class T, class U, bool backward, bool sums_places>
struct ConvProduct {
  Strided<const T> left;
  Windows<T, backward> right;
  Strided<U> result;
  int columns, depth, part;
};

/// The sums of thread (x,y) in f32: rows y + 16 i and columns x + 16 j of the block's.
template <bool sums_places>
struct PlainSums {
  float sums[4][8] = {};
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;

  __device__ int row(int i) const { return y + 16 * i; }
  __device__ int column(int j) const { return x + 16 * j; }
  __device__ float sum(int i, int j) const { return sums[i][j]; }

  template <class Left, class Right>
  __device__ void add(const Left& left, const Right& right) {
    for (int k = 0; k < conv_depth<float>; ++k) {
      float b[8];
      PG_UNROLL
      for (int j = 0; j < 8; ++j) b[j] = sums_places ? right[column(j)][k] : right[k][column(j)];
      PG_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float a = left[row(i)][k];
        PG_UNROLL
        for (int j = 0; j < 8; ++j) sums[i][j] += a * b[j];
      }
    }
  }
};

/// A lane's sums in bf16: its warp has 32 x 32 sums of the block's, in fragments of 16 x 8.
template <bool sums_places>
struct TensorCoreSums {
  float sums[2][4][4] = {};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row = warp / 4 * 32, first_column = warp % 4 * 32;

  __device__ int row(int i) const { return first_row + lane / 4 + 8 * i; }
  __device__ int column(int j) const { return first_column + 8 * (j / 2) + 2 * (lane % 4) + j % 2; }
  __device__ float sum(int i, int j) const { return sums[i / 2][j / 2][i % 2 * 2 + j % 2]; }

  template <class Left, class Right>
  __device__ void add(const Left& left, const Right& right) {
    PG_UNROLL
    for (int k = 0; k < conv_depth<__nv_bfloat16>; k += 16) {
      unsigned a[2][4], b[4];
      PG_UNROLL
      for (int r = 0; r < 2; ++r)
        ldmatrix_x4(a[r], &left[first_row + 16 * r + lane % 16][k + lane / 16 * 8]);
      PG_UNROLL
      for (int n = 0; n < 4; n += 2) {
        const int c = first_column + 8 * n;
        if constexpr (sums_places)
          ldmatrix_x4(b, &right[c + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);
        else
          ldmatrix_x4_transposed(b, &right[k + lane % 16][c + lane / 16 * 8]);
        PG_UNROLL
        for (int r = 0; r < 2; ++r) {
          mma_16816(sums[r][n], a[r], {b[0], b[1]});
          mma_16816(sums[r][n + 1], a[r], {b[2], b[3]});
        }
      }
    }
  }
};

/// The number of blocks whose registers a GPU's multiprocessor holds without spills.
template <class T, bool sums_places>
constexpr int conv_blocks = sizeof(T) == 2 && sums_places ? 1 : 2;

template <class T, class U, bool backward, bool sums_places>
__global__ void __launch_bounds__(conv_threads, conv_blocks<T, sums_places>)
    conv_product_kernel(ConvProduct<T, U, backward, sums_places> p) {
  using Right = RightTile<T, backward, sums_places>;
  alignas(16) __shared__ typename LeftTile<T>::Memory left_tiles[2];
  alignas(16) __shared__ typename Right::Memory right_tiles[2];
  const int begin = blockIdx.z * p.part, end = min(begin + p.part, p.depth);
  const int column = blockIdx.x * conv_columns;
  LeftTile<T> left(p.left, begin, end);
  Right right(p.right, sums_places ? column : begin, sums_places ? begin : column,
              sums_places ? end : p.columns);
  std::conditional_t<sizeof(T) == 2, TensorCoreSums<sums_places>, PlainSums<sums_places>> sums;
  left.read();
  right.read();
  for (int start = begin, buffer = 0; start < end; start += conv_depth<T>, buffer ^= 1) {
    left.write(left_tiles[buffer]);
    right.write(right_tiles[buffer]);
    __syncthreads();  // the tiles are complete, and no thread reads the other ones any more
    if (start + conv_depth<T> < end) {
      left.read();
      right.read();
    }
    sums.add(left_tiles[buffer], right_tiles[buffer]);
  }
  PG_UNROLL
  for (int j = 0; j < 8; ++j) {
    const int c = column + sums.column(j);
    if (c >= p.columns) continue;
    U* to = p.result.column(p.result.index(c)) + std::int64_t{blockIdx.z} * p.left.rows * p.columns;
    PG_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = blockIdx.y * conv_rows + sums.row(i);
      if (r < p.left.rows) to[r * p.result.pitch] = from_float<U>(sums.sum(i, j));
    }
  }
}

namespace {

constexpr int part_depth = 4096;  // length of a block's part of a sum that several blocks share

/// One convolution: x (N,C,H,W), weight (K,C,kh,kw), y (N,K,Ho,Wo).
struct ConvSizes {
  int images, channels, height, width, kernels, out_height, out_width;
  Window window;

  ConvSizes(const Tensor& x, const Tensor& y, Window window) : window(window) {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    PG_CHECK(std::max(x.numel(), y.numel()) <= most, "cuda: a convolution from ", x, " to ", y,
             " has too many elements; use fewer images");
    PG_CHECK((std::max(x.size(2), x.size(3)) + window.padding) * window.stride <= most,
             "cuda: a convolution of ", x, " has padding ", window.padding, " and stride ",
             window.stride, "; expected (size + padding) stride below 2^31");
    auto size = [](const Tensor& image, int i) { return static_cast<int>(image.size(i)); };
    images = size(x, 0), channels = size(x, 1), height = size(x, 2), width = size(x, 3);
    kernels = size(y, 1), out_height = size(y, 2), out_width = size(y, 3);
  }
  int taps() const { return window.height * window.width; }
  int area() const { return height * width; }
  int out_area() const { return out_height * out_width; }

  /// Images as a matrix of channels and all pixels.
  template <class T>
  Strided<T> pixels_of_x(T* x) const {
    return {x, channels, area(), area(), channels * area()};
  }
  template <class T>
  Strided<T> pixels_of_y(T* y) const {
    return {y, kernels, out_area(), out_area(), kernels * out_area()};
  }
  template <class T>
  Windows<T, false> windows_of_x(const T* x) const {
    return {x, channels, height, width, out_height, out_width, window};
  }
  template <class T>
  Windows<T, true> windows_of_dy(const T* dy) const {
    return {dy, kernels, out_height, out_width, height, width, window};
  }
};

template <class T, class U, bool backward, bool sums_places>
void run_product(const CudaBackend& backend, const ConvProduct<T, U, backward, sums_places>& p) {
  const dim3 blocks(blocks_for(p.columns, conv_columns), blocks_for(p.left.rows, conv_rows),
                    blocks_for(p.depth, p.part));
  backend.run(conv_product_kernel<T, U, backward, sums_places>, {blocks, conv_threads}, p);
}

}  // namespace

// y[k, nhw] = sum over taps t of weight[k,t] x[t, nhw]
void CudaBackend::conv2d(In x, In weight, Window window, Out y) {
  const ConvSizes s(x, y, window);
  const int depth = s.channels * s.taps(), pixels = s.images * s.out_area();
  dispatch(x, [&]<class T>() {
    const Strided<const T> weights{weight.data<T>(), s.kernels, depth, depth, 0};
    run_product(*this,
                ConvProduct<T, T, false, false>{weights, s.windows_of_x(x.data<T>()),
                                                s.pixels_of_y(y.data<T>()), pixels, depth, depth});
  });
}

// dx[c, nhw] = sum over kernels, and over the places of a window at which it reads the pixel
void CudaBackend::conv2d_backward_input(In dy, In weight, Window window, Out dx) {
  const ConvSizes s(dx, dy, window);
  const int depth = s.kernels * s.taps(), pixels = s.images * s.area();
  dispatch(dy, [&]<class T>() {
    const Strided<const T> weights{weight.data<T>(), s.channels, s.taps(), s.taps(),
                                   s.channels * s.taps()};
    run_product(*this,
                ConvProduct<T, T, true, false>{weights, s.windows_of_dy(dy.data<T>()),
                                               s.pixels_of_x(dx.data<T>()), pixels, depth, depth});
  });
}

// dweight[k,t] = sum over nhw of dy[k, nhw] x[t, nhw]. Sums over all pixels are long, and their
// results are few, so several blocks share each sum.
void CudaBackend::conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
  const ConvSizes s(x, dy, window);
  const int depth = s.images * s.out_area(), taps = s.channels * s.taps();
  if (depth == 0) return fill(0, dweight);
  const unsigned parts = blocks_for(depth, part_depth);
  const Tensor sums =
      parts == 1 ? dweight : workspace({parts, dweight.numel()}, DType::f32, x.device());
  dispatch(x, [&]<class T>() {
    const Strided<const T> gradients = s.pixels_of_y<const T>(dy.data<T>());
    const Strided<float> results{sums.data<float>(), s.kernels, taps, taps, 0};
    run_product(*this, ConvProduct<T, float, false, true>{gradients, s.windows_of_x(x.data<T>()),
                                                          results, taps, depth, part_depth});
  });
  if (parts > 1) reduce(Reduction::sum, sums, dweight.window(0, {1, dweight.numel()}));
}

}  // namespace plangrad::cuda
