// Codecs: what is read back is within the bound of what was written, whatever that was.
// Not here: the bits of an encoding (tests/autograd/quantize_test.cpp).
#include "parallel/codecs/codec.h"

#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

constexpr float largest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();
const std::vector<DType> types{DType::f32, DType::bf16};

std::unique_ptr<Codec> codec(const std::string& name) { return make_codec(parse_codec(name)); }

/// Elements by a function of the index and a number in [0, 1).
struct Input {
  const char* name;
  std::function<float(std::int64_t, float)> element;
};

const std::vector<Input> inputs{
    {"ordinary", [](std::int64_t, float u) { return u - 0.4f; }},
    {"gradients", [](std::int64_t i, float u) { return 1e-3f * (u - 0.5f) / (1 + i % 5); }},
    {"far from zero", [](std::int64_t, float u) { return 1000 + u; }},
    {"constant", [](std::int64_t, float) { return 0.3f; }},
    {"zeros", [](std::int64_t, float) { return 0.0f; }},
    {"constant and denormal", [](std::int64_t, float) { return -0x1p-131f; }},
    {"denormal", [](std::int64_t i, float u) { return (i % 2 ? -1 : 1) * u * 0x1p-126f; }},
    {"tiny", [](std::int64_t, float u) { return 1e-12f * u; }},
    {"huge", [](std::int64_t, float u) { return (u - 0.5f) * largest; }},
    {"huge, of both signs", [](std::int64_t, float u) { return (2 * u - 1) * largest; }},
    {"the largest", [](std::int64_t i, float) { return i % 3 ? largest : -largest; }},
    {"the largest, and others", [](std::int64_t i, float u) { return i % 3 ? u : largest; }},
    {"all sizes", [](std::int64_t i, float u) { return std::ldexp(u - 0.5f, int(i % 250) - 125); }},
};

Tensor make(const Input& input, std::int64_t n, DType dtype, const DevicePtr& device) {
  std::vector<float> values(n);
  // Towards zero, so that bf16's largest is finite.
  constexpr std::uint32_t upper_half = 0xffff0000;
  for (std::int64_t i = 0; i < n; ++i) {
    values[i] = input.element(i, uniform(RandomKey(1, input.name), i));
    if (dtype == DType::bf16)
      values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i]) & upper_half);
  }
  return floats(values, {n}, device, dtype);
}

struct Trip {
  bool finite;
  Tensor bytes, y;
};

Trip round_trip(Codec& codec, const Tensor& x, RandomKey key = {}, std::int64_t place = 0) {
  Tensor bytes = empty({codec.encoded_bytes(x.numel(), x.dtype())}, DType::u8, x.device());
  Tensor y = empty_like(x);
  bool finite = codec.encode(x, key, place, bytes);
  if (finite) codec.decode(bytes, y);
  return {finite && all_finite(y), bytes, y};  // encoding says so, or what arrives
}

double largest_error(const Tensor& x, const Tensor& y) {
  return largest_difference(to_host(x), to_host(y));
}

/// A value is rounded to a level beside it, by at most a unit; or to the nearest one, by half of
/// that. To this comes the rounding of results: of steps / unit to f32, of levels to their type.
double bucket_bound(const CodecSpec& spec, double unit, double min, DType dtype) {
  double steps = (1 << spec.bits) - 1, range = unit * steps;
  if (unit < 1e-10) return range;  // all become the minimum
  double share = spec.stochastic ? 1 : 0.5;
  double relative = dtype == DType::bf16 ? 0x1p-8 : 0x1p-23;
  double largest = std::max(std::abs(min), std::abs(min + range));
  return share * unit + range * 0x1p-21 + largest * relative;
}

/// The largest bound of a bucket, found from the levels that it has in a message.
double quantized_bound(const CodecSpec& spec, const Tensor& x) {
  const Tensor bytes = round_trip(*make_codec(spec), x).bytes;
  std::int64_t buckets = (x.numel() + spec.bucket - 1) / spec.bucket;
  Numbers levels = to_host(Tensor(bytes.storage(), 0, {buckets, 2}, x.dtype()));
  double result = 0;
  for (std::int64_t i = 0; i < buckets; ++i)
    result = std::max(result, bucket_bound(spec, levels[2 * i], levels[2 * i + 1], x.dtype()));
  return result;
}

/// No value of decode(encode(x)) is farther from x's than this.
double error_bound(const std::string& name, const Tensor& x) {
  const CodecSpec spec = parse_codec(name);
  auto magnitude = [&](std::int64_t k) { return x.backend().magnitude(x, k).value; };
  if (spec.name == "quantize" || spec.name == "adaptive") return quantized_bound(spec, x);
  // bf16 has 8 significant bits; below its smallest normal number, 2^-126, steps of 2^-133.
  if (spec.name == "bf16") return x.dtype() == DType::bf16 ? 0 : magnitude(1) * 0x1p-8 + 0x1p-134;
  if (spec.name == "threshold") return magnitude(1);  // any value may find no slot
  if (spec.name == "none") return 0;
  const std::int64_t sent = index_bytes(spec, x.numel()) / 4;  // topk: the largest left out
  return sent == x.numel() ? 0 : magnitude(sent + 1);
}

/// f32 ends at 3.403e38, bf16 at 3.390e38; what is rounded to more arrives as infinite.
bool has_more_than_bf16(const Tensor& x) {
  Numbers values = to_host(x);
  return std::any_of(values.begin(), values.end(),
                     [](double v) { return std::abs(v) >= 0x1.ffp127; });
}

void check_bound(const std::string& name, std::int64_t n) {
  for (DType dtype : types)
    for (const Input& input : inputs) {
      Tensor x = make(input, n, dtype, cpu_device());
      auto c = codec(name);
      Trip trip = round_trip(*c, x, RandomKey(7, "round"));
      INFO(name << ", " << n << " values, " << input.name << ", in " << dtype);
      if (name == "bf16" && has_more_than_bf16(x)) {
        CHECK_FALSE(trip.finite);
        continue;
      }
      REQUIRE(trip.finite);
      double bound = error_bound(name, x);
      CHECK(std::isfinite(bound));
      CHECK(largest_error(x, trip.y) <= bound);
    }
}

}  // namespace

TEST_CASE("codec: quantized values are within the bound, for all bits and buckets", "[codec]") {
  for (int bits = 1; bits <= 8; ++bits)
    for (int bucket : {1, 64, 512, 1000, 2048})
      for (const char* rounding : {"", ":stochastic"})
        for (std::int64_t n : {1, 7, 9, 3001})
          check_bound(text("quantize:", bits, ':', bucket, rounding), n);
}

TEST_CASE("codec: the others' values are within the bound", "[codec]") {
  for (const char* name :
       {"none", "bf16", "adaptive:512", "topk:0.01", "topk:1", "threshold:0.01", "threshold:0.5"})
    for (std::int64_t n : {1, 7, 9, 3001}) check_bound(name, n);
}

TEST_CASE("codec: bounds are no more than twice what happens to ordinary values", "[codec]") {
  for (DType dtype : types)
    for (const char* name :
         {"bf16", "quantize:1:64", "quantize:2:512", "quantize:4:1024", "quantize:8:512",
          "quantize:4:512:stochastic", "topk:0.01", "topk:0.5", "threshold:0.01"}) {
      if (dtype == DType::bf16 && std::string(name) == "bf16") continue;  // exact
      Tensor x = make(inputs[0], 20000, dtype, cpu_device());
      auto c = codec(name);
      INFO(name << " in " << dtype);
      CHECK(error_bound(name, x) <=
            2 * largest_error(x, round_trip(*c, x, RandomKey(7, "round")).y));
    }
}

TEST_CASE("codec: constant tensors come back exactly", "[codec]") {
  for (DType dtype : types)
    for (int bits = 1; bits <= 8; ++bits)
      for (const char* rounding : {"", ":stochastic"})
        for (float value : {0.3f, -1e30f, 0x1p-131f, -0x1p-133f, 0.0f, 0x1.fep127f}) {
          Tensor x = full({777}, value, dtype, cpu_device());
          Trip trip = round_trip(*codec(text("quantize:", bits, ":64", rounding)), x);
          bool same = to_host(trip.y) == to_host(x);
          CHECK(same);
        }
}

TEST_CASE("codec: NaN and infinity are reported, or arrive", "[codec]") {
  for (DType dtype : types)
    for (const char* name : {"none", "bf16", "quantize:4:64", "quantize:1:64:stochastic",
                             "adaptive", "topk:0.01", "threshold:0.01"})
      for (float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
        for (std::int64_t at : {0, 500, 999}) {
          std::vector<float> values(1000, 0.5f);
          auto c = codec(name);
          CHECK(round_trip(*c, floats(values, {1000}, cpu_device(), dtype)).finite);
          values[at] = bad;
          INFO(name << " in " << dtype << ", " << bad << " at " << at);
          CHECK_FALSE(round_trip(*c, floats(values, {1000}, cpu_device(), dtype)).finite);
        }
}

TEST_CASE("codec: an encoding has the bytes of the formula, and no other room is taken",
          "[codec]") {
  for (DType dtype : types)
    for (const char* name :
         {"none", "bf16", "quantize:3:64", "adaptive", "topk:0.1", "threshold:0.1"})
      for (std::int64_t n : {1, 7, 9, 1000}) {
        Tensor x = make(inputs[0], n, dtype, cpu_device());
        auto c = codec(name);
        std::int64_t bytes = c->encoded_bytes(n, dtype);
        CHECK(bytes == encoded_bytes(parse_codec(name), n, size_of(dtype)));
        // A message inside a larger buffer leaves what is around it alone.
        std::vector<std::uint8_t> before(bytes + 16, 0xa5), after(before.size());
        Tensor room = empty({bytes + 16}, DType::u8, x.device());
        x.backend().copy_from_host(before.data(), room);
        Tensor message = room.window(8, {bytes}), y = empty_like(x);
        REQUIRE(c->encode(x, {}, 0, message));
        c->decode(message, y);
        CHECK(largest_error(x, y) <= error_bound(name, x));
        x.backend().copy_to_host(room, after.data());
        bool front = std::equal(after.begin(), after.begin() + 8, before.begin());
        bool back = std::equal(after.end() - 8, after.end(), before.begin());
        CHECK(front);
        CHECK(back);
        Tensor small = empty({bytes - 1}, DType::u8, x.device());
        CHECK_THROWS_WITH(c->encode(x, {}, 0, small), Contains(text("got room for ", bytes - 1)));
        CHECK_THROWS_WITH(c->decode(small, y), Contains(text("take ", bytes, " bytes")));
      }
}

TEST_CASE("codec: top-k sends the largest, and nothing else", "[codec]") {
  Tensor x = floats({1, -4, 3, 4, -2, 0.5f, 4, -3}, {8}, cpu_device());
  auto sent = [&](const char* name) { return to_host(round_trip(*codec(name), x).y); };
  CHECK(sent("topk:0.125") == Numbers{0, -4, 0, 0, 0, 0, 0, 0});
  CHECK(sent("topk:0.3") == Numbers{0, -4, 0, 4, 0, 0, 4, 0});
  CHECK(sent("topk:0.5") == Numbers{0, -4, 3, 4, 0, 0, 4, 0});
  CHECK(sent("topk:1") == to_host(x));
}

TEST_CASE("codec: a threshold serves until it has to be set anew", "[codec]") {
  auto c = codec("threshold:0.25:3");  // 2 slots of 8
  auto sent = [&](std::vector<float> x, std::int64_t place = 0) {
    return to_host(round_trip(*c, floats(x, {8}, cpu_device()), {}, place).y);
  };
  CHECK(sent({1, -4, 3, 0, 0, 0, 0, 0}) == Numbers{0, -4, 3, 0, 0, 0, 0, 0});  // set to 3
  CHECK(sent({1, 2, 0, 0, 0, 0, 0, -3}) == Numbers{0, 0, 0, 0, 0, 0, 0, -3});  // one slot empty
  CHECK(sent({1, 2, 0, 0, 0, 0, 0, 0}) == Numbers(8));                         // third use
  CHECK(sent({1, 2, 0, 0, 0, 0, 0, 0}) == Numbers{1, 2, 0, 0, 0, 0, 0, 0});    // set to 1
  // Too many: those that find no slot come first next time, and the threshold is set to 6.
  CHECK(sent({5, 6, 7, 8, 5, 5, 5, 5}) == Numbers{5, 6, 0, 0, 0, 0, 0, 0});
  CHECK(sent({0, 0, 7, 8, 6, 5, 5, 5}) == Numbers{0, 0, 7, 8, 0, 0, 0, 0});
  CHECK(sent({0, 0, 0, 0, 6, 7, 7, 5}) == Numbers{0, 0, 0, 0, 0, 7, 7, 0});
  // Other places have thresholds of their own; of equal values all get their turn.
  const std::vector<float> ones(8, 1);
  CHECK(sent(ones, 8) == Numbers{1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(sent(ones, 8) == Numbers{0, 0, 1, 1, 0, 0, 0, 0});
  CHECK(sent(ones, 8) == Numbers{0, 0, 0, 0, 1, 1, 0, 0});
  CHECK(sent(ones, 8) == Numbers{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(sent(ones, 8) == Numbers{1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(sent(std::vector<float>(8), 16) == Numbers(8));
}

TEST_CASE("codec: a threshold goes on from a checkpoint as if nothing had happened", "[codec]") {
  for (int before = 0; before < 12; ++before) {
    auto one = codec("threshold:0.1:4"), two = codec("threshold:0.1:4");
    bool same = true;
    for (int use = 0; use < 24; ++use) {
      if (use == before) two->restore(one->state());
      for (std::int64_t place : {0, 500}) {
        Tensor x = empty({500}, DType::f32, cpu_device());
        x.backend().fill_normal(RandomKey(use + 100 * place, "x"), 0, 1 + use % 3, x);
        Numbers expected = to_host(round_trip(*one, x, {}, place).y);
        if (use >= before) same &= to_host(round_trip(*two, x, {}, place).y) == expected;
      }
    }
    CHECK(same);
  }
  CHECK(codec("topk:0.1")->state().empty());
  CHECK_THROWS_WITH(codec("threshold:0.1")->restore({{0, {1.0}}}), Contains("of another codec"));
}

TEST_CASE("codec: only those that leave values out ask for error feedback", "[codec]") {
  for (const char* name : {"none", "bf16", "quantize:1", "adaptive"})
    CHECK_FALSE(leaves_out(parse_codec(name)));
  for (const char* name : {"topk:0.1", "threshold:0.1", "lowrank:2", "pca:2"})
    CHECK(leaves_out(parse_codec(name)));
  CHECK_THROWS_WITH(codec("lowrank:4"), Contains("lowrank:4 needs a whole group's sum"));
}

TEST_CASE("codec: on a guarded device the bytes are the CPU's", "[codec]") {
  for (DType dtype : types)
    for (const char* name :
         {"none", "bf16", "quantize:3:64:stochastic", "topk:0.1", "threshold:0.1"}) {
      std::vector<std::vector<std::uint8_t>> results;
      for (const DevicePtr& device : {cpu_device(), guarded_device()}) {
        Tensor x = make(inputs[0], 3001, dtype, device);
        auto c = codec(name);
        Trip trip = round_trip(*c, x, RandomKey(7, "round"));
        CHECK(largest_error(x, trip.y) <= error_bound(name, x));
        results.emplace_back(trip.bytes.numel());
        x.backend().copy_to_host(trip.bytes, results.back().data());
      }
      bool same = results[0] == results[1];
      INFO(name);
      CHECK(same);
    }
}
