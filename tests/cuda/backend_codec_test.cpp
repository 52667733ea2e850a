// The CUDA backend's kernels for codecs write and read the CPU's bytes, bit for bit.
// Not here: what the bytes mean (tests/autograd/quantize_test.cpp, sparse_values_test.cpp).
#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes host_bytes(const Tensor& x) {
  Bytes result(x.bytes());
  x.backend().copy_to_host(x, result.data());
  return result;
}

/// The same bytes on another device.
Tensor moved(const Tensor& x, const DevicePtr& device) {
  Tensor y = empty(x.shape(), x.dtype(), device);
  device->backend().copy_from_host(host_bytes(x).data(), y);
  return y;
}

/// Normal numbers; every tenth is `special`.
Tensor numbers(std::int64_t n, DType dtype, double deviation, float special = 0) {
  Tensor x = empty({n}, DType::f32, cpu_device()), y = empty({n}, dtype, x.device());
  x.backend().fill_normal(RandomKey(3, "x"), 0.1 * deviation, deviation, x);
  for (std::int64_t i = 9; i < n; i += 10) x.data<float>()[i] = special;
  x.backend().copy(x, y);
  return y;
}

std::int64_t message_bytes(Quantizer how, std::int64_t n, DType dtype) {
  std::int64_t buckets = (n + how.bucket - 1) / how.bucket;
  return 2 * buckets * size_of(dtype) + (n * how.bits + 63) / 64 * 8;
}

/// Encodes on both devices; decodes both messages on the CUDA device, and on the CPU.
void check_quantizer(const Tensor& x, Quantizer how, const DevicePtr& device) {
  const RandomKey key(how.bits, "round");
  Tensor expected = empty({message_bytes(how, x.numel(), x.dtype())}, DType::u8, x.device());
  Tensor bytes = empty(expected.shape(), DType::u8, device), decoded = empty_like(x);
  x.backend().quantize(x, how, key, expected);
  device->backend().quantize(moved(x, device), how, key, bytes);
  const bool same_bytes = host_bytes(bytes) == host_bytes(expected);
  CHECK(same_bytes);
  x.backend().dequantize(expected, how, decoded);
  Tensor y = empty(x.shape(), x.dtype(), device);
  device->backend().dequantize(bytes, how, y);
  const bool same_values = host_bytes(y) == host_bytes(decoded);
  CHECK(same_values);
}

/// What select writes and returns, and what collect and scatter make of the message.
struct Chosen {
  Bytes message, collected, scattered;
  bool finite;
  std::int64_t left;

  Chosen(const Tensor& x, Selection which, std::int64_t slots) {
    // A byte too early, as messages of several layers stand behind each other.
    Tensor bytes = empty({1 + slots * (4 + size_of(x.dtype()))}, DType::u8, x.device())
                       .window(1, {slots * (4 + size_of(x.dtype()))});
    const Selected selected = x.backend().select(x, which, bytes);
    finite = selected.finite;
    left = selected.left;
    message = host_bytes(bytes);
    Tensor other = empty_like(x), y = empty_like(x);
    x.backend().affine(x, 2, 1, other);
    x.backend().scatter(bytes, y);
    scattered = host_bytes(y);
    x.backend().collect(other, bytes);
    collected = host_bytes(bytes);
  }
  bool operator==(const Chosen&) const = default;
};

const DType types[] = {DType::f32, DType::bf16};

}  // namespace

TEST_CASE("backend codecs: quantized bytes and values are the CPU's") {
  Machine machine;
  const DevicePtr device = strict_device();
  for (DType dtype : types)
    for (int bits = 1; bits <= 8; ++bits)
      for (std::int64_t bucket : fewer<std::int64_t>({1, 7, 64, 1000, 4096}))
        for (bool stochastic : {false, true})
          for (std::int64_t n : {1, 9, 1023, 2051}) {
            INFO(dtype << ", " << bits << " bits, buckets of " << bucket << ", " << n << " values");
            check_quantizer(numbers(n, dtype, 1), {bits, bucket, stochastic}, device);
          }
}

TEST_CASE("backend codecs: numbers at the ends of the scale are quantized as on the CPU") {
  Machine machine;
  const DevicePtr device = cuda_device();
  constexpr float most = 0x1.fep127f;  // the largest bf16
  for (DType dtype : types)
    for (int bits : {1, 8})
      for (const Tensor& x : {numbers(100, dtype, 1e-20), numbers(100, dtype, 0, 1e-44f),
                              numbers(100, dtype, 1e37, most), numbers(100, dtype, 1e37, -most),
                              numbers(100, dtype, 0, most)}) {
        check_quantizer(x, {bits, 50, false}, device);
      }
}

TEST_CASE("backend codecs: a value that is not finite is reported") {
  Machine machine;
  const DevicePtr device = strict_device();
  for (DType dtype : types)
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
      for (std::int64_t at : {0, 4097, 9999}) {
        Tensor x = numbers(10000, DType::f32, 1), y = empty({10000}, dtype, x.device());
        x.data<float>()[at] = bad;
        x.backend().copy(x, y);
        const Tensor there = moved(y, device);
        Tensor bytes = empty({message_bytes({4, 64}, 10000, dtype)}, DType::u8, device);
        device->backend().quantize(there, {4, 64}, {}, bytes);
        const Tensor decoded = empty({10000}, dtype, device);
        device->backend().dequantize(bytes, {4, 64}, decoded);
        const std::vector<double> values = to_host(decoded);
        for (std::int64_t i = 0; i < 10000; ++i)
          REQUIRE(std::isnan(values[i]) == (i / 64 == at / 64));
        CHECK(std::isinf(device->backend().magnitude(there, 10000).value));
        CHECK_FALSE(device->backend().select(there, {2, 0}, bytes).finite);
      }
}

TEST_CASE("backend codecs: the k-th magnitude is the CPU's") {
  Machine machine;
  const DevicePtr device = strict_device();
  for (DType dtype : types)
    for (std::int64_t n : {1, 17, 4097, 9001})
      for (double deviation : {1e-40, 1.0, 1e30}) {
        const Tensor x = numbers(n, dtype, deviation, 0.25f), there = moved(x, device);
        for (std::int64_t k : {std::int64_t{1}, n / 100 + 1, n / 2 + 1, n}) {
          const Magnitude expected = x.backend().magnitude(x, k);
          const Magnitude found = device->backend().magnitude(there, k);
          CHECK(found.value == expected.value);
          CHECK(found.equal == expected.equal);
        }
      }
}

TEST_CASE("backend codecs: messages of the largest values are the CPU's") {
  const Settings settings =
      GENERATE(Settings{.order = Order::forward},
               Settings{.order = Order::reverse, .schedule = QueueSchedule::lazy},
               Settings{.order = Order::random, .seed = 5});
  Machine machine(settings);
  const DevicePtr device = strict_device();
  for (DType dtype : types)
    for (std::int64_t n : {1, 17, 4096, 9001})
      for (std::int64_t k : {std::int64_t{1}, n / 10 + 1, n}) {
        const Tensor x = numbers(n, dtype, 1, 0.25f), there = moved(x, device);  // a tenth is equal
        const Magnitude least = x.backend().magnitude(x, k);
        for (std::int64_t first : {std::int64_t{0}, n / 3})
          for (std::int64_t slots : {k, k / 2, k + 3}) {
            INFO(dtype << ", " << k << " of " << n << " from " << first << ", " << slots);
            const Selection which{least.value, least.equal, first};
            const bool same = Chosen(there, which, slots) == Chosen(x, which, slots);
            CHECK(same);
          }
      }
}

TEST_CASE("backend codecs: a message from more elements than one block counts the pieces of") {
  const std::int64_t n = 1'100'000, k = n / 8;  // 269 pieces, for 256 threads
  const Tensor x = numbers(n, DType::bf16, 1, 0.25f);
  const Magnitude least = x.backend().magnitude(x, k);
  const Selection which{least.value, least.equal, n / 3};
  const Chosen expected(x, which, k);
  for (Order order : all_orders) {
    Machine machine({.order = order});
    const bool same = Chosen(moved(x, cuda_device()), which, k) == expected;
    CHECK(same);
  }
}

TEST_CASE("backend codecs: an index outside is an error") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const Tensor x = floats({5, 0, -5, 5}, {4}, device), small = zeros({3}, DType::f32, device);
  Tensor bytes = empty({3 * 8}, DType::u8, device);
  CHECK(device->backend().select(x, {1, 0}, bytes).left == -1);
  device->backend().scatter(bytes, small);
  CHECK_THROWS_WITH(to_host(small), Contains("scatter: index 3 is outside [0,3)"));
  device->backend().collect(small, bytes);
  CHECK_THROWS_WITH(to_host(small), Contains("collect: index 3 is outside [0,3)"));
}
