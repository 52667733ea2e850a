// Convolution and its gradients as matrix products whose operands are read from the images: no
// matrix of patches is written.
// Not here: the product (convolution_product.h), and products of matrices in memory (gemm.cu).
// Chapter 03; Chetlur et al. 2014, "cuDNN", section 3.
#include <algorithm>
#include <limits>

#include "cuda/backend/convolution_product.h"

namespace plangrad::cuda {

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
