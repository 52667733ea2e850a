// Operations on images: checks, sizes of results, and above each the formula of its gradient.
// Not here: loops over windows (autograd/cpu/convolution.cpp, images.cpp). Chapter 02.
#include "autograd/ops.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

/// The shape of the result, each side of which is (size + 2 padding - window) / stride + 1.
static Shape slide(const char* name, const Tensor& x, Window window, std::int64_t channels) {
  PG_CHECK(window.stride > 0 && window.padding >= 0, name,
           ": the stride must be at least 1 and the padding at least 0, got ", window.stride,
           " and ", window.padding);
  std::int64_t rows = x.size(2) + 2 * window.padding - window.height;
  std::int64_t columns = x.size(3) + 2 * window.padding - window.width;
  PG_CHECK(window.height > 0 && window.width > 0 && rows >= 0 && columns >= 0, name,
           ": a window of ", window.height, "x", window.width, " does not fit images of ",
           x.size(2), "x", x.size(3), " with padding ", window.padding);
  return {x.size(0), channels, rows / window.stride + 1, columns / window.stride + 1};
}

static Shape pool(const char* name, const Tensor& x, Window window) {
  PG_CHECK(x.shape().rank() == 4, name, ": expected images (N,C,H,W), got ", x.shape());
  PG_CHECK(2 * window.padding <= window.height, name, ": padding ", window.padding,
           " is more than half of the window's ", window.height, "; some windows would be empty");
  return slide(name, x, window, x.size(1));
}

// y[n,k,h,w] = sum_{c,i,j} x[n, c, h s + i - p, w s + j - p] weight[k,c,i,j]
//   dx[n,c,a,b] = the sum of dy[n,k,h,w] weight[k,c,i,j] over all terms that read x[n,c,a,b]
//   dweight[k,c,i,j] = sum_{n,h,w} dy[n,k,h,w] x[n, c, h s + i - p, w s + j - p]
Tensor conv2d(const Tensor& x, const Tensor& weight, int stride, int padding) {
  PG_CHECK(x.shape().rank() == 4 && weight.shape().rank() == 4,
           "conv2d: expected x (N,C,H,W) and a weight (K,C,kh,kw), got ", x.shape(), " and ",
           weight.shape());
  PG_CHECK(x.size(1) == weight.size(1), "conv2d: x ", x.shape(), " has ", x.size(1),
           " channels, the weight ", weight.shape(), " reads ", weight.size(1));
  PG_CHECK(x.dtype() == weight.dtype(), "conv2d: types differ, x is ", x, ", the weight is ",
           weight);
  Window window{static_cast<int>(weight.size(2)), static_cast<int>(weight.size(3)), stride,
                padding};
  Tensor y = empty(slide("conv2d", x, window, weight.size(0)), x.dtype(), x.device());
  x.backend().conv2d(x, weight, window, y);
  return record(
      y, "conv2d", {x, weight}, [=](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
        Tensor dx, dweight;
        if (wanted[0]) {
          dx = empty_like(x);
          x.backend().conv2d_backward_input(dy, weight, window, dx);
        }
        if (wanted[1]) {
          dweight = empty(weight.shape(), gradient_dtype(weight.dtype()), weight.device());
          x.backend().conv2d_backward_weight(x, dy, window, dweight);
        }
        return {dx, dweight};
      });
}

// y[h,w] = max_{i,j} x[h s + i - p, w s + j - p], padding never wins
//   dx[a,b] = the sum of dy[h,w] over the windows whose maximum is x[a,b]; the first of equals
Tensor max_pool2d(const Tensor& x, int size, int stride, int padding) {
  Window window{size, size, stride, padding};
  Tensor y = empty(pool("max_pool2d", x, window), x.dtype(), x.device());
  Tensor index = empty(y.shape(), DType::i32, x.device());
  x.backend().max_pool2d(x, window, y, index);
  return record(y, "max_pool2d", x, [index, shape = x.shape()](const Tensor& dy) {
    Tensor dx = empty(shape, dy.dtype(), dy.device());
    dy.backend().max_pool2d_backward(dy, index, dx);
    return dx;
  });
}

// y[h,w] = 1/size^2 sum_{i,j} x[h s + i - p, w s + j - p]: a convolution of each channel with ones
Tensor average_pool2d(const Tensor& x, int size, int stride, int padding) {
  const Shape shape = pool("average_pool2d", x, {size, size, stride, padding});
  const Tensor planes = reshape(x, {x.size(0) * x.size(1), 1, x.size(2), x.size(3)});
  const Tensor ones = full({1, 1, size, size}, 1, x.dtype(), x.device());
  return affine(reshape(conv2d(planes, ones, stride, padding), shape), 1.0 / (size * size));
}

// The statistics are x's own, over M = N H W values; with n = (x - mean) / deviation:
//   dbias = sum dy,  dweight = sum dy n,  dx = weight / deviation (dy - dbias / M - n dweight / M)
static Tensor norm_by_batch(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const RunningStatistics& running, double epsilon) {
  std::int64_t channels = x.size(1), count = x.numel() / std::max<std::int64_t>(channels, 1);
  PG_CHECK(count > 1,
           "batch_norm: training needs more than one value in a channel to have a "
           "variance, x is ",
           x.shape(), "; use a larger batch or image");
  DType dtype = statistic_dtype(x.dtype());
  Tensor y = empty_like(x);
  Tensor mean = empty({channels}, dtype, x.device()), variance = empty_like(mean);
  x.backend().batch_norm_statistics(x, mean, variance);
  x.backend().batch_norm_apply(x, mean, variance, weight, bias, epsilon, y);
  return record(
      y, "batch_norm", {x, weight, bias, running.mean, running.variance},
      [=](const Tensor& dy) -> std::vector<Tensor> {
        Tensor dx = empty_like(x);
        Tensor dweight = empty(weight.shape(), gradient_dtype(weight.dtype()), weight.device());
        Tensor dbias = empty_like(dweight);
        x.backend().batch_norm_backward(x, mean, variance, weight, epsilon, dy, dx, dweight, dbias);
        Tensor unbiased = affine(variance, static_cast<double>(count) / (count - 1));
        return {dx, dweight, dbias, mean, unbiased};
      });
}

/// Sums over batch, height and width.                                        (N,C,H,W) -> (C)
static Tensor sum_channels(const Tensor& x, DType dtype) {
  Tensor y = empty({1, x.size(1), 1, 1}, dtype, x.device());
  x.backend().reduce(Reduction::sum, x, y);
  return y.window(0, {x.size(1)});
}

// The statistics are constants; with n = (x - mean) / deviation:
//   dbias = sum dy,  dweight = sum dy n,  dx = dy weight / deviation
static Tensor norm_by_running(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const RunningStatistics& running, double epsilon) {
  DType dtype = statistic_dtype(x.dtype());
  Tensor mean = cast(running.mean.detach(), dtype),
         variance = cast(running.variance.detach(), dtype);
  Tensor y = empty_like(x);
  x.backend().batch_norm_apply(x, mean, variance, weight, bias, epsilon, y);
  return record(y, "batch_norm", {x, weight, bias}, [=](const Tensor& dy) -> std::vector<Tensor> {
    Tensor zero = zeros(bias.shape(), bias.dtype(), bias.device());
    Tensor one = full(weight.shape(), 1, weight.dtype(), weight.device());
    Tensor zero_mean = zeros(mean.shape(), dtype, mean.device());
    Tensor dx = empty_like(x), product = empty_like(x);
    x.backend().batch_norm_apply(dy, zero_mean, variance, weight, zero, epsilon, dx);
    x.backend().batch_norm_apply(x, mean, variance, one, zero, epsilon, product);
    x.backend().binary(Binary::multiply, dy, product, product);
    return {dx, sum_channels(product, dtype), sum_channels(dy, dtype)};
  });
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const RunningStatistics& running, bool training, double epsilon) {
  PG_CHECK(x.shape().rank() == 4, "batch_norm: expected images (N,C,H,W), got ", x.shape());
  for (const Tensor& t : {weight, bias, running.mean, running.variance})
    PG_CHECK(t.shape() == Shape{x.size(1)}, "batch_norm: x is ", x.shape(), ", the weight ",
             weight.shape(), ", the bias ", bias.shape(), ", the running mean ",
             running.mean.shape(), ", the running variance ", running.variance.shape(),
             "; expected (", x.size(1), ")");
  PG_CHECK(weight.dtype() == x.dtype() && bias.dtype() == x.dtype(),
           "batch_norm: types differ, x is ", x, ", the weight ", weight, ", the bias ", bias);
  return training ? norm_by_batch(x, weight, bias, running, epsilon)
                  : norm_by_running(x, weight, bias, running, epsilon);
}

}  // namespace plangrad::autograd
