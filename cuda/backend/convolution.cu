// Convolution and its gradients as matrix products whose operands are read from the images: no
// matrix of patches is written. Blocks multiply tiles of 64 x 64 in f32.
// Not here: tensor cores, and products of matrices in memory (gemm.cu).
// Chapter 03; Chetlur et al. 2014, "cuDNN", section 3.
#include <algorithm>
#include <limits>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

constexpr int edge = 64, depth_tile = 16, side = 16, block_threads = side * side;
constexpr int part_depth = 4096;  // length of a block's part of a sum that several blocks share

/// One convolution: x (N,C,H,W), weight (K,C,kh,kw), y (N,K,Ho,Wo).
struct Sizes {
  int images, channels, height, width, kernels, out_height, out_width;
  Window window;

  Sizes(const Tensor& x, const Tensor& y, Window window) : window(window) {
    PG_CHECK(std::max(x.numel(), y.numel()) <= std::numeric_limits<int>::max(),
             "cuda: a convolution from ", x, " to ", y, " has too many elements; use fewer images");
    auto size = [](const Tensor& image, int i) { return static_cast<int>(image.size(i)); };
    images = size(x, 0), channels = size(x, 1), height = size(x, 2), width = size(x, 3);
    kernels = size(y, 1), out_height = size(y, 2), out_width = size(y, 3);
  }
  __host__ __device__ int taps() const { return window.height * window.width; }
};

/// Three indices, the last one fastest: pixel (n,h,w) of all images, or tap (c,i,j) of a kernel.
struct Triple {
  int a, b, c;

  __device__ static Triple of(int i, int b_size, int c_size) {
    return {i / c_size / b_size, i / c_size % b_size, i % c_size};
  }
};

/// Element i of one channel, counted through all images; images have `area` pixels per channel.
template <class T>
__device__ T& in_channel(T* x, int channels, int area, int channel, int i) {
  return x[(i / area * channels + channel) * area + i % area];
}

/// The element of x that a tap of the window at pixel `at` of y reads, or 0 outside the image.
template <class T>
__device__ float pixel(const T* x, const Sizes& s, Triple at, Triple tap) {
  const int h = at.b * s.window.stride + tap.b - s.window.padding;
  const int w = at.c * s.window.stride + tap.c - s.window.padding;
  if (h < 0 || h >= s.height || w < 0 || w >= s.width) return 0;
  return to_float(x[((at.a * s.channels + tap.a) * s.height + h) * s.width + w]);
}

// Each problem is c = a b: left(r,k) is an element of a, and right(k,column) of b, whose column is
// decomposed once for all k.                             a (rows,depth), b (depth,columns)
struct Problem {
  Sizes s;
  int rows, columns, depth, part;

  __device__ Triple tap(int i) const { return Triple::of(i, s.window.height, s.window.width); }
  __device__ Triple place(int i) const { return Triple::of(i, s.out_height, s.out_width); }
};

/// y[k, nhw] = sum over taps t of weight[k,t] x[t, nhw]
template <class T>
struct Forward : Problem {
  const T *x, *weight;
  T* y;

  __device__ Triple column(int i) const { return place(i); }
  __device__ float left(int r, int k) const { return to_float(weight[r * depth + k]); }
  __device__ float right(int k, Triple at) const { return pixel(x, s, at, tap(k)); }
  __device__ void write(int r, int i, float sum) const {
    in_channel(y, s.kernels, s.out_height * s.out_width, r, i) = from_float<T>(sum);
  }
};

/// dx[c, nhw] = sum over kernels, and over the places of a window at which it reads the pixel
template <class T>
struct BackwardInput : Problem {
  const T *dy, *weight;
  T* dx;

  __device__ Triple column(int i) const { return Triple::of(i, s.height, s.width); }
  __device__ float left(int r, int k) const {
    return to_float(in_channel(weight, s.channels, s.taps(), r, k));
  }
  __device__ float right(int k, Triple at) const {
    const Triple from = tap(k);
    const int down = at.b + s.window.padding - from.b, across = at.c + s.window.padding - from.c;
    const int h = down / s.window.stride, w = across / s.window.stride;
    if (down < 0 || across < 0 || down % s.window.stride != 0 || across % s.window.stride != 0 ||
        h >= s.out_height || w >= s.out_width)
      return 0;
    return to_float(dy[((at.a * s.kernels + from.a) * s.out_height + h) * s.out_width + w]);
  }
  __device__ void write(int r, int i, float sum) const {
    in_channel(dx, s.channels, s.height * s.width, r, i) = from_float<T>(sum);
  }
};

/// dweight[k,t] = sum over nhw of dy[k, nhw] x[t, nhw], computed in parts.
template <class T>
struct BackwardWeight : Problem {
  const T *x, *dy;
  float* parts;

  __device__ Triple column(int i) const { return tap(i); }
  __device__ float left(int r, int k) const {
    return to_float(in_channel(dy, s.kernels, s.out_height * s.out_width, r, k));
  }
  __device__ float right(int k, Triple tap) const { return pixel(x, s, place(k), tap); }
  __device__ void write(int r, int i, float sum) const {
    parts[(std::int64_t{blockIdx.z} * rows + r) * columns + i] = sum;
  }
};

/// Multiplies tiles. A thread has 4 x 4 elements of the block's tile, 16 rows and columns apart.
template <class P>
__global__ void __launch_bounds__(block_threads) product_kernel(P p) {
  __shared__ float a[depth_tile][edge + 1], b[depth_tile][edge + 1];
  const int thread = threadIdx.x, x = thread % side, y = thread / side;
  const int row = blockIdx.y * edge, column = blockIdx.x * edge, own = column + thread % edge;
  const int begin = blockIdx.z * p.part, end = min(begin + p.part, p.depth);
  const Triple at = p.column(own);
  float sums[edge / side][edge / side] = {};
  for (int start = begin; start < end; start += depth_tile) {
    for (int i = thread; i < depth_tile * edge; i += block_threads) {
      const int k = i % depth_tile, r = i / depth_tile;
      a[k][r] = start + k < end && row + r < p.rows ? p.left(row + r, start + k) : 0;
    }
    for (int k = thread / edge; k < depth_tile; k += block_threads / edge)
      b[k][thread % edge] = start + k < end && own < p.columns ? p.right(start + k, at) : 0;
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < depth_tile; ++k) {
      PG_UNROLL
      for (int i = 0; i < edge / side; ++i) {
        PG_UNROLL
        for (int j = 0; j < edge / side; ++j) sums[i][j] += a[k][y + i * side] * b[k][x + j * side];
      }
    }
    __syncthreads();  // all threads have read them
  }
  for (int i = 0; i < edge / side; ++i)
    for (int j = 0; j < edge / side; ++j) {
      const int r = row + y + i * side, c = column + x + j * side;
      if (r < p.rows && c < p.columns) p.write(r, c, sums[i][j]);
    }
}

template <class P>
void run_product(const CudaBackend& backend, const P& p, unsigned parts = 1) {
  const dim3 blocks(blocks_for(p.columns, edge), blocks_for(p.rows, edge), parts);
  backend.run(product_kernel<P>, {blocks, block_threads}, p);
}

}  // namespace

void CudaBackend::conv2d(In x, In weight, Window window, Out y) {
  const Sizes s(x, y, window);
  const int depth = s.channels * s.taps(), pixels = s.images * s.out_height * s.out_width;
  dispatch(x, [&]<class T>() {
    run_product(
        *this,
        Forward<T>{
            {s, s.kernels, pixels, depth, depth}, x.data<T>(), weight.data<T>(), y.data<T>()});
  });
}

void CudaBackend::conv2d_backward_input(In dy, In weight, Window window, Out dx) {
  const Sizes s(dx, dy, window);
  const int depth = s.kernels * s.taps(), pixels = s.images * s.height * s.width;
  dispatch(dy, [&]<class T>() {
    run_product(
        *this,
        BackwardInput<T>{
            {s, s.channels, pixels, depth, depth}, dy.data<T>(), weight.data<T>(), dx.data<T>()});
  });
}

// Sums over all pixels are long, and their results are few, so several blocks share each sum.
void CudaBackend::conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
  const Sizes s(x, dy, window);
  const int depth = s.images * s.out_height * s.out_width;
  if (depth == 0) return fill(0, dweight);
  const unsigned parts = blocks_for(depth, part_depth);
  const Tensor sums =
      parts == 1 ? dweight : workspace({parts, dweight.numel()}, DType::f32, x.device());
  dispatch(x, [&]<class T>() {
    run_product(*this,
                BackwardWeight<T>{{s, s.kernels, s.channels * s.taps(), depth, part_depth},
                                  x.data<T>(),
                                  dy.data<T>(),
                                  sums.data<float>()},
                parts);
  });
  if (parts > 1) reduce(Reduction::sum, sums, dweight.window(0, {1, dweight.numel()}));
}

}  // namespace paragrad::cuda
