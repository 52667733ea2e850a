// Operations on images: values, gradients, error bounds, PyTorch's numbers, messages.
#include "autograd/ops.h"

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"
#include "tests/catch.h"
#include "tests/op_checks.h"
#include "tests/references.h"

using namespace plangrad::autograd;
using namespace plangrad::tests;

namespace {

struct Convolution {
  std::int64_t images, in, height, width, out, kernel_height, kernel_width;
  int stride, padding;

  Shape x() const { return {images, in, height, width}; }
  Shape weight() const { return {out, in, kernel_height, kernel_width}; }
  std::string name() const { return text("conv2d ", x(), weight(), ' ', stride, ' ', padding); }
};

const Convolution convolutions[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0},    // one number
    {2, 3, 5, 4, 2, 1, 1, 1, 0},    // pixels, without unfolding
    {2, 3, 5, 4, 2, 1, 1, 2, 0},    // pixels, not all
    {2, 2, 5, 4, 3, 1, 1, 1, 2},    // pixels and zeros
    {2, 3, 7, 5, 4, 3, 3, 1, 1},    // as in a residual block
    {2, 3, 7, 5, 4, 3, 3, 2, 1},    // which halves the size
    {2, 2, 8, 6, 3, 3, 3, 2, 1},    // of even sizes
    {3, 2, 3, 4, 3, 3, 4, 1, 0},    // as large as the image
    {2, 2, 2, 1, 2, 5, 4, 3, 3},    // larger than the image, with padding
    {1, 1, 1, 1, 2, 7, 7, 1, 3},    // mostly padding
    {1, 2, 9, 9, 2, 2, 3, 4, 0},    // pixels that no window reads
    {5, 1, 12, 13, 2, 3, 2, 1, 1},  // a block of images and a rest
};

/// The definition, as six loops.
Numbers by_loops(const Convolution& c, const Numbers& x, const Numbers& weight,
                 std::int64_t out_height, std::int64_t out_width) {
  Numbers y;
  for (std::int64_t n = 0; n < c.images; ++n)
    for (std::int64_t k = 0; k < c.out; ++k)
      for (std::int64_t h = 0; h < out_height; ++h)
        for (std::int64_t w = 0; w < out_width; ++w) {
          double sum = 0;
          for (std::int64_t p = 0; p < c.in * c.kernel_height * c.kernel_width; ++p) {
            std::int64_t channel = p / (c.kernel_height * c.kernel_width);
            std::int64_t row = h * c.stride + p / c.kernel_width % c.kernel_height - c.padding;
            std::int64_t column = w * c.stride + p % c.kernel_width - c.padding;
            if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
            sum += x[((n * c.in + channel) * c.height + row) * c.width + column] *
                   weight[k * c.in * c.kernel_height * c.kernel_width + p];
          }
          y.push_back(sum);
        }
  return y;
}

}  // namespace

TEST_CASE("image: a convolution is its definition", "[image]") {
  DevicePtr device = cpu_device();
  for (const Convolution& c : convolutions) {
    INFO(c.name());
    Tensor x = uniform_tensor({c.x()}, "x", device);
    Tensor weight = uniform_tensor({c.weight()}, "weight", device);
    Tensor y = conv2d(x, weight, c.stride, c.padding);
    REQUIRE(y.shape() == Shape{c.images, c.out,
                               (c.height + 2 * c.padding - c.kernel_height) / c.stride + 1,
                               (c.width + 2 * c.padding - c.kernel_width) / c.stride + 1});
    CHECK(difference(to_host(y), by_loops(c, to_host(x), to_host(weight), y.size(2), y.size(3))) <
          1e-14);
  }
}

TEST_CASE("image: convolution, gradients and precision", "[image]") {
  for (const Convolution& c : convolutions) {
    double terms = static_cast<double>(c.images * c.height * c.width + c.out * c.weight().numel());
    CHECK_NOTHROW(check_op(
        {c.name(),
         {{c.x()}, {c.weight()}},
         [c](const std::vector<Tensor>& x) { return conv2d(x[0], x[1], c.stride, c.padding); },
         {static_cast<double>(c.weight().numel() / c.out + 2)},
         {terms}},
        cpu_device()));
  }
}

TEST_CASE("image: pooling, gradients and precision", "[image]") {
  struct Pool {
    Shape x;
    int size, stride, padding;
  };
  for (const Pool& p : {Pool{{1, 1, 1, 1}, 1, 1, 0},
                        {{2, 3, 7, 5}, 3, 2, 1},
                        {{2, 3, 6, 4}, 2, 2, 0},
                        {{1, 2, 5, 5}, 5, 1, 0},
                        {{1, 2, 1, 3}, 3, 1, 1},
                        {{3, 1, 9, 7}, 2, 5, 1}}) {
    auto max = [p](const std::vector<Tensor>& x) {
      return max_pool2d(x[0], p.size, p.stride, p.padding);
    };
    auto average = [p](const std::vector<Tensor>& x) {
      return average_pool2d(x[0], p.size, p.stride, p.padding);
    };
    // A maximum of absolute values says nothing about the terms of the gradient: bound those by
    // the number of windows that can share a pixel.
    double windows = p.size * p.size;
    CHECK_NOTHROW(
        check_op({text("max_pool2d ", p.x, ' ', p.size), {{p.x}}, max, exactly, {9, windows}},
                 cpu_device()));
    const Rounding sum{27, 0, false, 1};  // it is stored, and then divided
    CHECK_NOTHROW(check_op({text("average_pool2d ", p.x, ' ', p.size), {{p.x}}, average, sum, sum},
                           cpu_device()));
  }
}

TEST_CASE("image: a maximum's place is the first of equals, and never padding", "[image]") {
  DevicePtr device = cpu_device();
  Tensor x = variable(floats({-1, -1, -2, -1}, {1, 1, 2, 2}, device));
  Tensor y = max_pool2d(x, 2, 1, 1);
  CHECK(to_host(y) == Numbers{-1, -1, -1, -1, -1, -1, -2, -1, -1});
  backward(y, floats({1, 2, 3, 4, 5, 6, 7, 8, 9}, y.shape(), device));
  CHECK(to_host(gradient(x)) == Numbers{1 + 2 + 4 + 5, 3 + 6, 7, 8 + 9});

  float nan = std::numeric_limits<float>::quiet_NaN(),
        low = -std::numeric_limits<float>::infinity();
  CHECK(std::isnan(item(max_pool2d(floats({1, nan, 2, 3}, {1, 1, 2, 2}, device), 2, 2))));
  CHECK(item(max_pool2d(floats({low, low, low, low}, {1, 1, 2, 2}, device), 2, 2)) == low);
}

TEST_CASE("image: an average counts padding as zeros", "[image]") {
  Tensor x = floats({4, 8, 12, 16}, {1, 1, 2, 2}, cpu_device());
  CHECK(to_host(average_pool2d(x, 2, 2, 1)) == Numbers{1, 2, 3, 4});
  CHECK(to_host(average_pool2d(x, 2, 2)) == Numbers{10});
}

TEST_CASE("image: batch norm, gradients and precision", "[image]") {
  for (bool training : {true, false})
    for (const Shape& shape : {Shape{2, 1, 1, 1}, Shape{2, 3, 7, 5}, Shape{5, 2, 1, 3}}) {
      auto norm = [training](const std::vector<Tensor>& x) {
        DType dtype = x[0].dtype();
        Tensor mean = full({x[0].size(1)}, 0.25, dtype, x[0].device());
        return batch_norm(x[0], x[1], x[2], {mean, affine(mean, 2)}, training, 0.125);
      };
      // For the bound: 1 / deviation is below 3, and multiplies differences below 2.
      CHECK_NOTHROW(check_op({text("batch_norm ", training, shape),
                              {{shape}, {{shape[1]}}, {{shape[1]}}},
                              norm,
                              {80, 3},
                              {150, 8, false, training ? 0.0 : 2}},
                             cpu_device()));
    }
}

TEST_CASE("image: batch norm in training hands on what it observed", "[image]") {
  DevicePtr device = cpu_device();
  Tensor x = doubles({1, 2, 3, 5, 5, 5, 7, 9, 6, 6, 6, 10}, {3, 2, 1, 2}, device);
  Tensor weight = variable(full({2}, 2, DType::f64, device));
  Tensor bias = variable(full({2}, -1, DType::f64, device));
  RunningStatistics running{variable(full({2}, 100, DType::f64, device)),
                            variable(full({2}, 100, DType::f64, device))};
  SECTION("channel 0 is 1 2 5 5 6 6, channel 1 is 3 5 7 9 6 10") {
    Tensor y = batch_norm(x, weight, bias, running, true, 0);
    double m0 = 25 / 6., v0 = 127 / 6. - m0 * m0, m1 = 40 / 6., v1 = 300 / 6. - m1 * m1;
    CHECK(to_host(y)[0] == Approx(2 * (1 - m0) / std::sqrt(v0) - 1));
    CHECK(to_host(y)[11] == Approx(2 * (10 - m1) / std::sqrt(v1) - 1));
    backward(y, full(y.shape(), 0.5, DType::f64, device));
    CHECK(to_host(gradient(running.mean))[0] == Approx(m0));
    CHECK(to_host(gradient(running.mean))[1] == Approx(m1));
    CHECK(to_host(gradient(running.variance))[0] == Approx(v0 * 6 / 5));
    CHECK(to_host(gradient(running.variance))[1] == Approx(v1 * 6 / 5));
  }
  SECTION("in inference nothing is observed") {
    Tensor y = batch_norm(x, weight, bias, running, false, 0);
    CHECK(to_host(y)[0] == Approx(2 * (1 - 100) / 10. - 1));
    backward(y, full(y.shape(), 1, DType::f64, device));
    CHECK(to_host(gradient(bias)) == Numbers{6, 6});
    CHECK_THROWS_WITH(gradient(running.mean), Contains("nothing has reached"));
    CHECK_THROWS_WITH(gradient(running.variance), Contains("nothing has reached"));
  }
}

TEST_CASE("image: statistics of bf16 images are f32", "[image]") {
  DevicePtr device = cpu_device();
  OpInput images{{4, 3, 5, 5}, 0.5, 1.5};
  Tensor x = uniform_tensor(images, "x", device, DType::bf16);
  Tensor one = full({3}, 1, DType::bf16, device);
  RunningStatistics running{variable(one), variable(one)};
  backward(batch_norm(x, one, one, running, true), x);
  CHECK(gradient(running.mean).dtype() == DType::f32);

  Tensor exact = uniform_tensor(images, "x", device, DType::bf16);
  Numbers values = to_host(exact);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / 25 % 3 == 1) sum += values[i];
  CHECK(to_host(gradient(running.mean))[1] == Approx(sum / 100).epsilon(100 * 0x1p-24));
}

TEST_CASE("image: PyTorch's numbers", "[image]") {
  DevicePtr device = cpu_device();
  References references("image_ops.safetensors");
  REQUIRE(references.file().metadata().contains("torch"));
  auto values = [&](Shape shape, std::int64_t first) {
    return variable(doubles(wave(shape.numel(), first), shape, device));
  };
  auto check = [&](const std::string& name, const Tensor& y,
                   const std::vector<std::pair<std::string, Tensor>>& inputs) {
    INFO(name);
    CHECK(y.shape() == references.shape(name));
    CHECK(difference(to_host(y), references[name]) < 1e-13);
    backward(y, values(y.shape(), 5000));
    for (const auto& [input, x] : inputs)
      CHECK(difference(to_host(gradient(x)), references[name + ".d" + input]) < 1e-12);
  };
  for (auto [stride, padding] : {std::pair{1, 0}, {1, 1}, {2, 1}, {3, 2}}) {
    Tensor x = values({2, 3, 7, 6}, 0), weight = values({4, 3, 3, 2}, 1000);
    check(text("conv2d.", stride, '.', padding), conv2d(x, weight, stride, padding),
          {{"x", x}, {"weight", weight}});
  }
  for (auto [size, stride, padding] : {std::tuple{2, 2, 0}, {3, 2, 1}}) {
    std::string how = text(size, '.', stride, '.', padding);
    Tensor x = values({2, 3, 7, 6}, 0);
    check("max_pool2d." + how, max_pool2d(x, size, stride, padding), {{"x", x}});
    x = values({2, 3, 7, 6}, 0);
    check("average_pool2d." + how, average_pool2d(x, size, stride, padding), {{"x", x}});
  }
  for (bool training : {true, false}) {
    Tensor x = values({2, 3, 7, 6}, 0), weight = values({3}, 1000), bias = values({3}, 2000);
    RunningStatistics running{values({3}, 3000),
                              variable(affine(doubles(wave(3, 4000), {3}, device), 0.5, 1))};
    check(training ? "batch_norm.training" : "batch_norm.inference",
          batch_norm(x, weight, bias, running, training),
          {{"x", x}, {"weight", weight}, {"bias", bias}});
    if (!training) continue;
    auto update = [](const Tensor& t) { return to_host(0.9 * t.detach() + 0.1 * gradient(t)); };
    CHECK(difference(update(running.mean), references["batch_norm.running_mean"]) < 1e-14);
    CHECK(difference(update(running.variance), references["batch_norm.running_var"]) < 1e-14);
  }
}

TEST_CASE("image: a convolution's workspace is given back", "[image]") {
  DevicePtr device = cpu_device();
  Tensor x = zeros({2, 3, 32, 32}, DType::f32, device), w = zeros({4, 3, 3, 3}, DType::f32, device);
  std::int64_t before = device->meter().live(Category::activations);
  Tensor y = conv2d(x, w, 1, 1);
  CHECK(device->meter().live(Category::activations) == before + y.bytes());
  CHECK(device->meter().live(Category::workspace) == 0);
  // Images of 32x32 are unfolded one at a time; a product of tile_gemm.h has a copy, and one of
  // oneDNN scratch memory, whose size depends on its release.
  const std::int64_t columns = 3 * 3 * 3 * 32 * 32 * 4;
  const std::int64_t peak = device->meter().peak(Category::workspace);
  CHECK(peak >= (PLANGRAD_ONEDNN_PRODUCTS ? columns : 2 * columns));
  CHECK(peak <= 2 * columns);
}

#if PLANGRAD_OPENMP
TEST_CASE("image: results do not depend on the number of threads", "[image]") {
  DevicePtr device = cpu_device();
  Tensor images = uniform_tensor({{5, 16, 31, 33}}, "x", device, DType::f32);
  auto results = [&](int threads) {
    int before = compute_threads();
    set_compute_threads(threads);
    std::vector<Numbers> all;
    Tensor x = variable(images);
    Tensor weight = variable(uniform_tensor({{8, 16, 3, 3}}, "w", device, DType::f32));
    Tensor scale = variable(uniform_tensor({{8}}, "s", device, DType::f32)),
           zero = zeros({8}, DType::f32, device);
    Tensor y = batch_norm(conv2d(x, weight, 1, 1), scale, zero, {zero, zero}, true);
    y = average_pool2d(max_pool2d(y, 3, 2, 1), 2, 1);
    backward(y, y.detach());
    for (const Tensor& t : {y.detach(), gradient(x), gradient(weight), gradient(scale)})
      all.push_back(to_host(t));
    set_compute_threads(before);
    return all;
  };
  auto one = results(1);
  CHECK(results(2) == one);
  CHECK(results(3) == one);
}
#endif

TEST_CASE("image: what does not fit is refused", "[image]") {
  DevicePtr device = cpu_device();
  auto make = [&](Shape shape, DType dtype = DType::f32) { return zeros(shape, dtype, device); };
  Tensor x = make({2, 3, 5, 4}), w = make({4, 3, 3, 3}), c = make({3});
  CHECK_THROWS_WITH(conv2d(x, make({4, 2, 3, 3})),
                    Contains("has 3 channels") && Contains("reads 2"));
  CHECK_THROWS_WITH(conv2d(x, make({4, 3, 6, 3})),
                    Contains("a window of 6x3 does not fit images of 5x4 with padding 0"));
  CHECK(conv2d(x, make({4, 3, 6, 3}), 1, 1).shape() == Shape{2, 4, 2, 4});
  CHECK_THROWS_WITH(conv2d(make({3, 5, 4}), w), Contains("expected x (N,C,H,W)"));
  CHECK_THROWS_WITH(conv2d(x, make({4, 3, 3})), Contains("expected x (N,C,H,W)"));
  CHECK_THROWS_WITH(conv2d(x, w, 0), Contains("stride must be at least 1"));
  CHECK_THROWS_WITH(conv2d(x, w, 1, -1), Contains("padding at least 0"));
  CHECK_THROWS_WITH(conv2d(x, make({4, 3, 3, 3}, DType::bf16)), Contains("types differ"));

  CHECK_THROWS_WITH(max_pool2d(x, 5, 1), Contains("a window of 5x5 does not fit"));
  CHECK_THROWS_WITH(average_pool2d(x, 0, 1), Contains("a window of 0x0"));
  CHECK_THROWS_WITH(max_pool2d(x, 3, 1, 2), Contains("padding 2 is more than half of the window"));
  CHECK_THROWS_WITH(max_pool2d(c, 1, 1), Contains("expected images (N,C,H,W), got (3)"));

  CHECK_THROWS_WITH(batch_norm(x, c, make({4}), {c, c}, true), Contains("the bias (4)"));
  CHECK_THROWS_WITH(batch_norm(x, c, c, {c, make({1})}, false),
                    Contains("the running variance (1); expected (3)"));
  CHECK_THROWS_WITH(batch_norm(make({1, 3, 1, 1}), c, c, {c, c}, true),
                    Contains("more than one value in a channel"));
  CHECK(batch_norm(make({1, 3, 1, 1}), c, c, {c, c}, false).shape() == Shape{1, 3, 1, 1});
  CHECK_THROWS_WITH(batch_norm(c, c, c, {c, c}, true), Contains("expected images"));
}
