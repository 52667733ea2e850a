// A stage's gradient as one rank encodes it: which layers, with which random numbers, and what is
// left out, which arrives later.
// Not here: sums over ranks (codec_oracle_test). Chapter 10.
#include "parallel/codecs/message_codec.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"

using namespace plangrad;
using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

nn::ParameterList layers() {
  nn::ParameterList list;
  list.add("bias", {37}, nn::Init::constant(0));
  list.add("matrix", {40, 33}, nn::Init::constant(0));
  list.add("long", {1500}, nn::Init::constant(0));
  list.add("small", {31, 33}, nn::Init::constant(0));
  list.add("kernel", {8, 16, 3, 3}, nn::Init::constant(0));
  return list;
}

Numbers gradient_of(std::int64_t count, int step) {
  Numbers values(count);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = uniform(RandomKey(step, "gradient"), i) - 0.5f;
  return values;
}

/// So that NaNs are alike.
std::string printed(const Tensor& x) {
  const Numbers values = to_host(x);
  std::ostringstream out;
  for (double value : values) out << value << " ";
  return out.str();
}

/// What a receiver has of values [begin, end) of a gradient.
Numbers sent(BufferCodec& codec, const Numbers& gradient, Range range, int version = 1) {
  const DevicePtr device = cpu_device();
  Tensor x = floats({gradient.begin() + range.begin, gradient.begin() + range.end}, {range.size()},
                    device);
  Tensor bytes = empty({codec.encoded_bytes(range)}, DType::u8, device), y = empty_like(x);
  codec.encode(x, range, version, true, bytes);
  codec.decode(bytes, range, y);
  CHECK(printed(x) == printed(y));  // the sender takes the same
  return to_host(y);
}

}  // namespace

TEST_CASE("buffer codec: matrices of 1024 elements are encoded, others travel as they are",
          "[codec]") {
  const nn::ParameterList list = layers();
  const Numbers gradient = gradient_of(list.numel(), 0);
  BufferCodec codec(list, parse_codec("quantize:2"), {}, cpu_device());
  const Numbers arrived = sent(codec, gradient, {0, list.numel()});
  for (const nn::Parameter& p : list) {
    INFO(p.name);
    const auto first = p.offset, last = p.offset + p.shape.numel();
    const bool same =
        std::equal(gradient.begin() + first, gradient.begin() + last, arrived.begin() + first);
    CHECK(same == (p.name != "matrix" && p.name != "kernel"));
  }
}

TEST_CASE("buffer codec: what is left out is added to what comes next", "[codec]") {
  const nn::ParameterList list = layers();
  for (const char* name : {"topk:0.01", "topk:0.3", "threshold:0.05:4"}) {
    INFO(name);
    BufferCodec codec(list, parse_codec(name), {}, cpu_device());
    Numbers given(list.numel()), arrived(list.numel());
    // In pieces, as collectives send it; not in order.
    const std::int64_t half = list.numel() / 2;
    for (int step = 1; step <= 30; ++step) {
      const Numbers gradient = gradient_of(list.numel(), step);
      for (Range range : {Range{half, list.numel()}, Range{0, half}}) {
        const Numbers part = sent(codec, gradient, range, step);
        for (std::int64_t i = 0; i < range.size(); ++i) arrived[range.begin + i] += part[i];
      }
      for (std::int64_t i = 0; i < list.numel(); ++i) given[i] += gradient[i];
    }
    const Numbers left = to_host(codec.residual());
    double lost = 0, most_left = 0;
    for (std::int64_t i = 0; i < list.numel(); ++i) {
      lost = std::max(lost, std::abs(given[i] - arrived[i] - left[i]));
      most_left = std::max(most_left, std::abs(left[i]));
    }
    CHECK(lost < 1e-4);  // 30 roundings of numbers below 16, by 2^-20 each at most
    CHECK(most_left > 0.1);
  }
}

TEST_CASE("buffer codec: random numbers go by sender, step and place", "[codec]") {
  nn::ParameterList list;
  list.add("matrix", {64, 64}, nn::Init::constant(0));
  const CodecSpec spec = parse_codec("quantize:2:64:stochastic");
  Numbers gradient = gradient_of(64, 0);
  for (int copy = 1; copy < 64; ++copy)
    gradient.insert(gradient.end(), gradient.begin(), gradient.begin() + 64);
  auto from = [&](const char* name) { return BufferCodec(list, spec, {1, name}, cpu_device()); };
  BufferCodec one = from("one"), two = from("two");
  const Range all{0, list.numel()};
  const Numbers first = sent(one, gradient, all, 1);
  CHECK(sent(one, gradient, all, 1) == first);
  CHECK(sent(one, gradient, all, 2) != first);
  CHECK(sent(two, gradient, all, 1) != first);
  const Numbers a = sent(one, gradient, {0, 1024}), b = sent(one, gradient, {1024, 2048});
  CHECK(a != b);
}

TEST_CASE("buffer codec: a value that is not finite arrives so, or is reported with its layer",
          "[codec]") {
  const nn::ParameterList list = layers();
  for (const char* name : {"bf16", "quantize:4", "topk:0.1", "threshold:0.1"}) {
    BufferCodec codec(list, parse_codec(name), {}, cpu_device());
    Numbers gradient = gradient_of(list.numel(), 0);
    gradient[list.numel() - 1] = INFINITY;
    const Range all{0, list.numel()};
    if (name[0] == 't')
      CHECK_THROWS_WITH(sent(codec, gradient, all, 7),
                        Contains("step 7: the gradient of kernel is not finite"));
    else
      CHECK_FALSE(std::isfinite(sent(codec, gradient, all, 7).back()));
  }
}

TEST_CASE("buffer codec: on a guarded device what arrives is the CPU's", "[codec][guarded]") {
  const nn::ParameterList list = layers();
  const Numbers values = gradient_of(list.numel(), 0);
  const std::vector<float> gradient(values.begin(), values.end());
  for (const char* name : {"bf16", "quantize:3:64", "topk:0.1", "threshold:0.1"}) {
    INFO(name);
    std::vector<Numbers> arrived;
    for (const DevicePtr& device : {cpu_device(), guarded_device()}) {
      BufferCodec codec(list, parse_codec(name), {}, device);
      Tensor x = floats(gradient, {list.numel()}, device), y = empty_like(x);
      Tensor bytes = empty({codec.encoded_bytes({0, list.numel()})}, DType::u8, device);
      codec.encode(x, {0, list.numel()}, 1, true, bytes);
      codec.decode(bytes, {0, list.numel()}, y);
      arrived.push_back(to_host(y));
    }
    const bool same = arrived[0] == arrived[1];
    CHECK(same);
  }
}
