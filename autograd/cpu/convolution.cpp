// Convolution as matrix products: patches of the image are unfolded into the columns of a matrix.
// Not here: the products themselves (autograd/cpu/gemm.cpp).
// Chapter 03; Chellapilla, Puri and Simard 2006.
#include "autograd/cpu/parallel.h"

namespace plangrad::autograd {
namespace {

/// Numbers in [first, last).
struct Range {
  std::int64_t first, last;
};

/// One convolution: x (N,C,H,W), weight (K,C,kh,kw), y (N,K,Ho,Wo).
struct Sizes {
  Window window;
  std::int64_t images, channels, height, width;
  std::int64_t kernels, out_height, out_width;

  Sizes(const Tensor& x, const Tensor& y, Window w)
      : window(w),
        images(x.size(0)),
        channels(x.size(1)),
        height(x.size(2)),
        width(x.size(3)),
        kernels(y.size(1)),
        out_height(y.size(2)),
        out_width(y.size(3)) {}

  std::int64_t patch() const { return channels * window.height * window.width; }
  std::int64_t area() const { return out_height * out_width; }
  /// Whether a patch is a pixel, so that an image is its own matrix of columns.
  bool pixels() const {
    return window.height * window.width * window.stride == 1 && window.padding == 0;
  }
  /// Images to unfold at a time: enough columns for an efficient product, that stay in the cache.
  std::int64_t block() const {
    std::int64_t enough = (512 + area() - 1) / area();
    return pixels() ? 1 : std::min(images, enough);
  }
  /// The positions across y at which column j of the window lies inside the image.
  Range inside(std::int64_t j) const {
    std::int64_t s = window.stride, left = window.padding - j, right = width - 1 + left;
    std::int64_t first = std::clamp<std::int64_t>((left + s - 1) / s, 0, out_width);
    std::int64_t last = right < 0 ? 0 : std::min(right / s + 1, out_width);
    return {first, std::max(first, last)};
  }
};

/// columns[(c,i,j), (n,h,w)] = x[n, c, h s + i - p, w s + j - p], or 0 outside the image.
template <class T>
void unfold(const Sizes& s, std::int64_t images, const T* x, T* columns) {
  std::int64_t kw = s.window.width, kh = s.window.height, stride = s.window.stride;
  cpu::parallel_each(s.patch() * images, 2 * s.area(), [=](std::int64_t r) {
    std::int64_t row = r / images, image = r % images;
    std::int64_t c = row / (kh * kw), i = row / kw % kh, j = row % kw;
    const T* plane = x + (image * s.channels + c) * s.height * s.width;
    T* to = columns + r * s.area();
    for (std::int64_t h = 0; h < s.out_height; ++h, to += s.out_width) {
      std::int64_t at = h * stride + i - s.window.padding;
      Range range = s.inside(j);
      if (at < 0 || at >= s.height) range = {0, 0};
      const T* from = plane + at * s.width + j - s.window.padding;
      std::fill(to, to + range.first, T(0));
      if (stride == 1)
        std::copy(from + range.first, from + range.last, to + range.first);
      else
        for (std::int64_t w = range.first; w < range.last; ++w) to[w] = from[w * stride];
      std::fill(to + range.last, to + s.out_width, T(0));
    }
  });
}

/// x[n,c,a,b] = the sum of the columns' elements to which unfold() copies x[n,c,a,b].
template <class T, class C>
void fold(const Sizes& s, std::int64_t images, const C* columns, T* x) {
  std::int64_t kw = s.window.width, kh = s.window.height, stride = s.window.stride;
  auto run = [=](std::int64_t first, std::int64_t last) {
    std::vector<C> sum(s.width);
    for (std::int64_t r = first; r < last; ++r) {
      std::int64_t image = r / (s.channels * s.height), c = r / s.height % s.channels;
      std::fill(sum.begin(), sum.end(), C(0));
      for (std::int64_t i = 0; i < kh; ++i) {
        std::int64_t down = r % s.height + s.window.padding - i, h = down / stride;
        if (down < 0 || down % stride != 0 || h >= s.out_height) continue;
        for (std::int64_t j = 0; j < kw; ++j) {
          std::int64_t row = (c * kh + i) * kw + j, shift = j - s.window.padding;
          const C* from = columns + (row * images + image) * s.area() + h * s.out_width;
          Range range = s.inside(j);
          if (stride == 1)
            for (std::int64_t w = range.first; w < range.last; ++w) sum[w + shift] += from[w];
          else
            for (std::int64_t w = range.first; w < range.last; ++w)
              sum[w * stride + shift] += from[w];
        }
      }
      std::copy(sum.begin(), sum.end(), x + r * s.width);
    }
  };
  cpu::parallel_for(images * s.channels * s.height, cpu::element_grain / (s.width * kw * kh) + 1,
                    run);
}

/// Calls body(first, images) for each block of images in turn.
template <class Body>
void for_blocks(const Sizes& s, Body&& body) {
  for (std::int64_t first = 0; first < s.images; first += s.block())
    body(first, std::min(s.block(), s.images - first));
}

/// Makes a matrix whose columns are the patches of some images.        (1, C kh kw, images Ho Wo)
Tensor unfolded(const Sizes& s, const Tensor& x, std::int64_t first, std::int64_t images) {
  std::int64_t size = s.channels * s.height * s.width;
  Shape shape{1, s.patch(), images * s.area()};
  if (s.pixels() && images == 1) return x.window(first * size, shape);
  Tensor columns = empty(shape, x.dtype(), x.device());
  dispatch(x.dtype(),
           [&]<class T>() { unfold(s, images, x.data<T>() + first * size, columns.data<T>()); });
  return columns;
}

/// Makes the kernels dy's outermost dimension, to match the columns.       (1, K, images Ho Wo)
Tensor by_kernel(const Sizes& s, const Tensor& dy, std::int64_t first, std::int64_t images) {
  Tensor part = dy.window(first * s.kernels * s.area(), {images, s.kernels, s.area()});
  Shape shape{1, s.kernels, images * s.area()};
  if (images == 1) return part.window(0, shape);
  Tensor result = empty(shape, dy.dtype(), dy.device());
  dy.backend().permute(part, {1, 0, 2}, result.window(0, {s.kernels, images, s.area()}));
  return result;
}

}  // namespace

// y = weight columns                                         (K,P) (P, N Ho Wo), P = C kh kw
void CpuBackend::conv2d(In x, In weight, Window window, Out y) {
  Sizes s(x, y, window);
  CategoryScope category(*x.device(), Category::workspace);
  for_blocks(s, [&](std::int64_t first, std::int64_t images) {
    Tensor columns = unfolded(s, x, first, images);
    Tensor target = y.window(first * s.kernels * s.area(), {images, s.kernels, s.area()});
    Shape shape{1, s.kernels, images * s.area()};
    Tensor product = images == 1 ? target.window(0, shape) : empty(shape, y.dtype(), y.device());
    gemm({}, weight.window(0, {1, s.kernels, s.patch()}), columns, {}, product);
    if (images > 1) permute(product.window(0, {s.kernels, images, s.area()}), {1, 0, 2}, target);
  });
}

// dcolumns = weight^T dy
void CpuBackend::conv2d_backward_input(In dy, In weight, Window window, Out dx) {
  Sizes s(dx, dy, window);
  CategoryScope category(*dx.device(), Category::workspace);
  DType dtype = statistic_dtype(dx.dtype());  // round sums of bf16 once, at their end
  for_blocks(s, [&](std::int64_t first, std::int64_t images) {
    Tensor columns = empty({1, s.patch(), images * s.area()}, dtype, dx.device());
    gemm({true, false}, weight.window(0, {1, s.kernels, s.patch()}),
         by_kernel(s, dy, first, images), {}, columns);
    dispatch(dx.dtype(), [&]<class T>() {
      T* target = dx.data<T>() + first * s.channels * s.height * s.width;
      fold(s, images, columns.data<Compute<T>>(), target);
    });
  });
}

// dweight = dy columns^T
void CpuBackend::conv2d_backward_weight(In x, In dy, Window window, Out dweight) {
  Sizes s(x, dy, window);
  CategoryScope category(*x.device(), Category::workspace);
  Tensor target = dweight.window(0, {1, s.kernels, s.patch()});
  if (s.images == 0) fill(0, dweight);
  for_blocks(s, [&](std::int64_t first, std::int64_t images) {
    Gemm add{.transpose_b = true, .add = first > 0};
    gemm(add, by_kernel(s, dy, first, images), unfolded(s, x, first, images), {}, target);
  });
}

}  // namespace plangrad::autograd
