// What the CUDA backend refuses, and when it says so.
// Not here: memory that is full (limits_test.cpp).
#include "autograd/backend.h"
#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

TEST_CASE("backend errors: an index outside is thrown by the next call that waits") {
  Machine machine;
  const DevicePtr device = device_of(3);
  const Tensor x = zeros({2, 3}, DType::f32, device), y = zeros({2}, DType::f32, device);
  Tensor loss = cross_entropy(x, integers({0, 3}, {2}, device));  // does not wait
  CHECK_THROWS_WITH(item(loss),
                    text("cross_entropy: target 3 is outside [0,3), found by a kernel on CUDA ",
                         "device ", 3 % devices()));
  CHECK(item(cross_entropy(x, integers({0, 2}, {2}, device))) == Approx(std::log(3)));

  embedding(x, integers({1, -1, 0}, {3}, device));
  CHECK_THROWS_WITH(device->backend().sums_of_squares({x}),
                    Contains("embedding: id -1 is outside [0,2)"));
  x.backend().gather(x, integers({0, 6}, {2}, device), false, y);
  CHECK_THROWS_WITH(backend_of(device).synchronize(), Contains("gather: index 6 is outside [0,6)"));
  x.backend().expand(y, integers({-2, 0}, {2}, device), x);
  CHECK_THROWS_WITH(backend_of(device).synchronize(),
                    Contains("expand: index -2 is outside [0,6)"));
  CHECK_NOTHROW(backend_of(device).synchronize());
}

TEST_CASE("backend errors: what the host sees is thrown at once") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const Tensor x = zeros({4}, DType::f32, device), one = integers({1}, {1}, device);
  const Tensor y = zeros({2}, DType::f32, device);
  CHECK_THROWS_WITH(x.backend().gather(x, one, false, y), Contains("1 indices for 2 elements"));
  CHECK_THROWS_WITH(x.backend().expand(y, one, x), Contains("1 indices for 2 elements"));
  CHECK_THROWS_WITH(x.backend().unary(Unary::exp, one, one),
                    "cuda: this operation needs a floating-point tensor, not i32 (1)");
  const Tensor deep = zeros(Shape(std::vector<std::int64_t>(9, 2)), DType::f32, device);
  const Tensor thin = zeros({2, 1, 2, 1, 2, 1, 2, 1, 2}, DType::f32, device);
  CHECK_THROWS_WITH(add(deep, thin), Contains("at most 8 dimensions to broadcast over"));
  CHECK_THROWS_WITH(permute(deep, {0, 1, 2, 3, 4, 5, 6, 8, 7}),
                    Contains("at most 8 dimensions to permute"));
}

TEST_CASE("backend errors: f64 is refused by every kernel") {
  Machine machine;
  const DevicePtr device = cuda_device();
  Backend& backend = device->backend();
  const Tensor x = empty({2, 2}, DType::f64, device), w = empty({2}, DType::f64, device);
  const Tensor ids = integers({0, 1}, {2}, device);
  const RandomKey key(1, "key");
  const std::function<void()> calls[] = {
      [&] { from_host(Numbers{1}, {1}, device); },
      [&] { zeros({1}, DType::f64, device); },
      [&] { backend.copy(x, x); },
      [&] { backend.copy(floats({1}, {1}, device), empty({1}, DType::f64, device)); },
      [&] { backend.fill_normal(key, 0, 1, x); },
      [&] { backend.fill_uniform(key, 0, 1, x); },
      [&] {
        backend.permute(x, {1, 0}, x);
      },
      [&] { backend.gather(w, ids, false, w); },
      [&] { backend.expand(w, ids, w); },
      [&] { backend.unary(Unary::exp, x, x); },
      [&] { backend.unary_backward(Unary::exp, x, x, x, x); },
      [&] { backend.binary(Binary::add, x, x, x); },
      [&] { backend.affine(x, 1, 1, x); },
      [&] { backend.accumulate(x, x); },
      [&] { backend.dropout(x, 0.5, key, x); },
      [&] { backend.bias_gelu(x, w, x); },
      [&] { backend.bias_gelu_backward(x, w, x, x, w); },
      [&] {
        backend.reduce(Reduction::sum, x, empty({1, 2}, DType::f64, device));
      },
      [&] { backend.sums_of_squares({x}); },
      [&] { backend.softmax(x, x); },
      [&] { backend.softmax_backward(x, x, x); },
      [&] { backend.layer_norm(x, {}, w, w, 1e-5, {}, x, w, w); },
      [&] { backend.layer_norm(x, x, w, w, 1e-5, x, x, w, w); },
      [&] { backend.layer_norm_backward(x, w, w, w, x, {}, x, w, w); },
      [&] { backend.cross_entropy(x, ids, 2, 1, w, x); },
      [&] { backend.scale_by(w, x); },
      [&] { backend.embedding(x, ids, x); },
      [&] { backend.embedding_backward(ids, x, x); },
      [&] { backend.sgd({}, {}, w, w, w, w); },
      [&] { backend.adamw({}, {}, w, w, w, w, w); },
  };
  for (const auto& call : calls) CHECK_THROWS_WITH(call(), Contains("f64 is for the CPU"));
}

TEST_CASE("backend errors: f64 is refused by kernels on matrices, images and encoded values") {
  Machine machine;
  const DevicePtr device = cuda_device();
  Backend& backend = device->backend();
  const Tensor x = empty({1, 1, 3}, DType::f64, device), w = empty({1}, DType::f64, device);
  const Tensor y = empty({1, 1, 1, 1}, DType::f64, device), m = empty({1, 1}, DType::f64, device);
  const Tensor index = integers({0}, {1, 1, 1, 1}, device), bytes = empty({16}, DType::u8, device);
  const SparsePattern pattern{integers({0, 1}, {2}, device), integers({0}, {1}, device), 1};
  const std::function<void()> calls[] = {
      [&] {
        backend.gemm({}, x.window(0, {1, 1, 1}), x, {}, x);
      },
      [&] { backend.spmm(pattern, w, m, {}, m); },
      [&] { backend.sddmm(pattern, m, m, w); },
      [&] {
        backend.attention(x, 1, x.window(0, {1, 1, 1}), x.window(0, {1, 1, 1}));
      },
      [&] {
        const Tensor one = x.window(0, {1, 1, 1});
        backend.attention_backward(x, 1, one, one, one, x);
      },
      [&] { backend.conv2d(y, y, {}, y); },
      [&] { backend.conv2d_backward_input(y, y, {}, y); },
      [&] { backend.conv2d_backward_weight(y, y, {}, y); },
      [&] { backend.max_pool2d(y, {}, y, index); },
      [&] { backend.max_pool2d_backward(y, index, y); },
      [&] { backend.batch_norm_statistics(y, w, w); },
      [&] { backend.batch_norm_apply(y, w, w, w, w, 1e-5, y); },
      [&] { backend.batch_norm_backward(y, w, w, w, 1e-5, y, y, w, w); },
      [&] { backend.quantize(w, {}, {}, bytes); },
      [&] { backend.dequantize(bytes, {}, w); },
      [&] { backend.magnitude(w, 1); },
      [&] { backend.select(w, {}, bytes); },
      [&] { backend.collect(w, bytes); },
      [&] { backend.scatter(bytes, w); },
  };
  for (const auto& call : calls) CHECK_THROWS_WITH(call(), Contains("f64 is for the CPU"));
}

TEST_CASE("backend errors: heads too wide for the shared memory of a block") {
  Machine machine;
  const DevicePtr device = cuda_device();
  CHECK_THROWS_WITH(attention(zeros({1, 1, 3000}, DType::f32, device), 1),
                    Contains("256256 bytes of shared memory per block, more than device 0 has"));
}
