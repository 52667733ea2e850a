// Quantization kernels: the bytes against a plain loop, on which both ends agree, and rounding.
// Not here: bounds on the error (tests/parallel/codecs/codec_test.cpp).
#include <cstring>
#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::int64_t message_bytes(Quantizer how, std::int64_t n, DType dtype) {
  std::int64_t buckets = (n + how.bucket - 1) / how.bucket;
  return 2 * buckets * size_of(dtype) + (n * how.bits + 63) / 64 * 8;
}

Bytes host_bytes(const Tensor& bytes) {
  Bytes result(bytes.numel());
  bytes.backend().copy_to_host(bytes, result.data());
  return result;
}

/// What an encoding holds, unpacked bit by bit.
struct Message {
  std::vector<float> unit, min;
  std::vector<int> level;
};

template <class T>
Message unpack(const Bytes& bytes, Quantizer how, std::int64_t n) {
  Message m;
  std::size_t at = 0;
  for (std::int64_t begin = 0; begin < n; begin += how.bucket) {
    T pair[2];
    std::memcpy(pair, &bytes[at], sizeof pair);
    at += sizeof pair;
    m.unit.push_back(pair[0]);
    m.min.push_back(pair[1]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    int level = 0;
    for (int b = 0; b < how.bits; ++b) {
      std::int64_t bit = i * how.bits + b;
      level |= (bytes[at + bit / 8] >> (bit % 8) & 1) << b;
    }
    m.level.push_back(level);
  }
  return m;
}

Message encoded(const Tensor& x, Quantizer how, RandomKey key = {}) {
  Tensor bytes = empty({message_bytes(how, x.numel(), x.dtype())}, DType::u8, x.device());
  x.backend().quantize(x, how, key, bytes);
  Bytes host = host_bytes(bytes);
  return x.dtype() == DType::f32 ? unpack<float>(host, how, x.numel())
                                 : unpack<bf16>(host, how, x.numel());
}

/// The paper's formulas, one operation at a time; `volatile` keeps each of them rounded to f32.
int reference_level(float x, float unit, float min, int bits, float round) {
  if (unit < 1e-10f) return 0;
  volatile float distance = x - min, inverse = 1 / unit, steps = distance * inverse;
  volatile float level = std::floor(steps + round);
  return std::min(static_cast<int>(level), (1 << bits) - 1);
}

Tensor ordinary(std::int64_t n, DType dtype, const DevicePtr& device = cpu_device()) {
  Tensor x = empty({n}, dtype, device);
  x.backend().fill_normal(RandomKey(3, "x"), 0.1, 1, x);
  return x;
}

const std::vector<std::int64_t> buckets{1, 7, 64, 512, 1000, 2048};

}  // namespace

TEST_CASE("quantize: the levels are those of a plain loop", "[quantize]") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int bits = 1; bits <= 8; ++bits)
      for (std::int64_t bucket : buckets)
        for (bool stochastic : {false, true})
          for (std::int64_t n : {1, 7, 9, 1023, 5001}) {
            INFO(dtype << ", " << bits << " bits, buckets of " << bucket << ", " << n << " values");
            Tensor x = ordinary(n, dtype);
            RandomKey key(bits, "round");
            Message m = encoded(x, {bits, bucket, stochastic}, key);
            Numbers values = to_host(x);
            int wrong = 0;
            for (std::int64_t i = 0; i < n; ++i)
              wrong += m.level[i] != reference_level(static_cast<float>(values[i]),
                                                     m.unit[i / bucket], m.min[i / bucket], bits,
                                                     stochastic ? uniform(key, i) : 0.5f);
            CHECK(wrong == 0);
          }
}

TEST_CASE("quantize: unit and min are the bucket's, rounded so that levels reach the maximum",
          "[quantize]") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int bits = 1; bits <= 8; ++bits) {
      constexpr std::int64_t n = 3001, bucket = 100;
      Tensor x = ordinary(n, dtype);
      Message m = encoded(x, {bits, bucket});
      Numbers values = to_host(x);
      int wrong = 0;
      for (std::int64_t i = 0; i * bucket < n; ++i) {
        auto begin = values.begin() + i * bucket, end = values.begin() + std::min(n, i * 100 + 100);
        auto [low, high] = std::minmax_element(begin, end);
        double unit = (*high - *low) / ((1 << bits) - 1);
        double above = m.unit[i] / unit - 1;  // one unit in the last place at most
        wrong +=
            m.min[i] != *low ||
            (unit ? above < 0 || above > (dtype == DType::f32 ? 0x1p-23 : 0x1p-7) : m.unit[i] != 0);
      }
      INFO(dtype << ", " << bits << " bits");
      CHECK(wrong == 0);
    }
}

TEST_CASE("quantize: decoding is min + unit * level", "[quantize]") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int bits = 1; bits <= 8; ++bits)
      for (std::int64_t bucket : buckets) {
        constexpr std::int64_t n = 5001;
        Quantizer how{bits, bucket};
        Tensor x = ordinary(n, dtype), y = empty_like(x);
        Tensor bytes = empty({message_bytes(how, n, dtype)}, DType::u8, x.device());
        x.backend().quantize(x, how, {}, bytes);
        x.backend().dequantize(bytes, how, y);
        Message m = encoded(x, how);
        Numbers decoded = to_host(y);
        int wrong = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          volatile float above = m.unit[i / bucket] * static_cast<float>(m.level[i]);
          volatile float value = m.min[i / bucket] + above;
          wrong += decoded[i] != (dtype == DType::f32 ? value : float(bf16(value)));
        }
        INFO(dtype << ", " << bits << " bits, buckets of " << bucket);
        CHECK(wrong == 0);
      }
}

TEST_CASE("quantize: halves round up, and levels stand in the order of the page", "[quantize]") {
  // unit 2, min 0; 16 levels of 4 bits, the first one lowest.
  Tensor x = floats({0, 30, 1, 2.9f, 3, 16, 28.9f, 29}, {8}, cpu_device());
  Quantizer how{4, 8};
  Tensor bytes = empty({16}, DType::u8, x.device());
  x.backend().quantize(x, how, {}, bytes);
  CHECK(host_bytes(bytes) == Bytes{0, 0, 0, 0x40, 0, 0, 0, 0, 0xf0, 0x11, 0x82, 0xfe, 0, 0, 0, 0});
}

TEST_CASE("quantize: the same key gives the same bytes, on any number of threads", "[quantize]") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t bucket : {1000, 1024, 1 << 20}) {
      constexpr std::int64_t n = 200003;
      Tensor x = ordinary(n, dtype), y = empty_like(x);
      Quantizer how{3, bucket, true};
      std::vector<Bytes> results;
      std::vector<Numbers> decoded;
      int before = compute_threads();
      for (int threads : {1, 2, 3}) {
        set_compute_threads(threads);
        Bytes noise(message_bytes(how, n, dtype), static_cast<std::uint8_t>(threads));
        Tensor bytes = empty({message_bytes(how, n, dtype)}, DType::u8, x.device());
        x.backend().copy_from_host(noise.data(), bytes);
        x.backend().quantize(x, how, RandomKey(5, "a"), bytes);
        x.backend().dequantize(bytes, how, y);
        results.push_back(host_bytes(bytes));
        decoded.push_back(to_host(y));
      }
      set_compute_threads(before);
      bool two = results[1] == results[0], three = results[2] == results[0];
      bool values = decoded[1] == decoded[0] && decoded[2] == decoded[0];
      CHECK(two);
      CHECK(three);
      CHECK(values);
      Tensor bytes = empty({message_bytes(how, n, dtype)}, DType::u8, x.device());
      x.backend().quantize(x, how, RandomKey(6, "a"), bytes);
      bool other = host_bytes(bytes) != results[0];
      CHECK(other);
    }
}

TEST_CASE("quantize: stochastic rounding is unbiased", "[quantize]") {
  // Each decoding is off by unit * (a number of variance f (1 - f)), f how far up to the next level
  // the value is; its mean over many keys by a standard error of that.
  constexpr std::int64_t n = 64, keys = 4000;
  for (int bits : {1, 2, 4, 8}) {
    Tensor x = ordinary(n, DType::f32), y = empty_like(x);
    Numbers values = to_host(x), sum(n);
    Message m = encoded(x, {bits, n});
    Quantizer how{bits, n, true};
    Tensor bytes = empty({message_bytes(how, n, DType::f32)}, DType::u8, x.device());
    for (std::int64_t k = 0; k < keys; ++k) {
      x.backend().quantize(x, how, RandomKey(k, "unbiased"), bytes);
      x.backend().dequantize(bytes, how, y);
      Numbers decoded = to_host(y);
      for (std::int64_t i = 0; i < n; ++i) sum[i] += decoded[i] - values[i];
    }
    double squares = 0;  // of the errors in standard errors: as chi-square, n +- sqrt(2n)
    for (std::int64_t i = 0; i < n; ++i) {
      double steps = (values[i] - m.min[0]) / m.unit[0], f = steps - std::floor(steps);
      double deviation = m.unit[0] * std::sqrt(std::max(f * (1 - f), 1e-4) / keys);
      CHECK(std::abs(sum[i] / keys) < 5 * deviation);
      squares += std::pow(sum[i] / keys / deviation, 2);
    }
    CHECK(squares < n + 5 * std::sqrt(2. * n));
  }
}

TEST_CASE("quantize: a bucket with a value that is not finite is NaN, and no other", "[quantize]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (DType dtype : {DType::f32, DType::bf16})
    for (float bad : {nan, -nan, infinity, -infinity})
      for (std::int64_t at : {0, 1, 1500, 2999}) {
        std::vector<float> values(3000, 1.5f);
        values[at] = bad;
        for (bool stochastic : {false, true}) {
          Tensor x = floats(values, {3000}, cpu_device(), dtype);
          Quantizer how{4, 512, stochastic};
          Tensor bytes = empty({message_bytes(how, 3000, dtype)}, DType::u8, x.device());
          x.backend().quantize(x, how, {}, bytes);
          x.backend().dequantize(bytes, how, x);
          const std::vector<double> y = to_host(x);
          for (std::int64_t i = 0; i < 3000; ++i)
            REQUIRE((i / 512 == at / 512 ? std::isnan(y[i]) : y[i] == 1.5));
        }
      }
}

TEST_CASE("quantize: other types are refused", "[quantize]") {
  Tensor x = zeros({8}, DType::f64, cpu_device()), bytes = zeros({64}, DType::u8, x.device());
  CHECK_THROWS_WITH(x.backend().quantize(x, {}, {}, bytes), Contains("f32 and bf16, not f64"));
  CHECK_THROWS_WITH(x.backend().dequantize(bytes, {}, x), Contains("f32 and bf16, not f64"));
}
