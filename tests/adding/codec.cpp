// sign: one bit a value says whether it is negative; one number says how large all of them are.
//   y[i] = sign(x[i]) * mean |x|
// Not here: what a message leaves out, which the caller adds to the next values (message_codec.h).
// Chapter 14; Karimireddy et al. 2019, "Error feedback fixes SignSGD".
#include <cmath>
#include <cstring>

#include "parallel/codecs/codec.h"

namespace plangrad::parallel {
namespace {

// [snippet sign]
/// A message is the size as f32, then a bit for each value.
class Sign : public Codec {
 public:
  using Codec::Codec;

  bool encode(const Tensor& x, RandomKey, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    std::vector<std::uint8_t> message(bytes.numel());
    double sum = 0;
    const std::vector<double> values = to_host(x);
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += std::abs(values[i]);
      if (values[i] < 0) message[sizeof(float) + i / 8] |= 1 << i % 8;
    }
    const auto size = static_cast<float>(sum / static_cast<double>(values.size()));
    std::memcpy(message.data(), &size, sizeof size);
    x.backend().copy_from_host(message.data(), bytes);
    return std::isfinite(size);
  }

  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    std::vector<std::uint8_t> message(bytes.numel());
    bytes.backend().copy_to_host(bytes, message.data());
    float size = 0;
    std::memcpy(&size, message.data(), sizeof size);
    dispatch(y.dtype(), [&]<class T>() {
      std::vector<T> values(y.numel());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = T(message[sizeof size + i / 8] >> i % 8 & 1 ? -size : size);
      y.backend().copy_from_host(values.data(), y);
    });
  }
};
// [end snippet]

}  // namespace

// [snippet entry]
CodecEntry sign_codec() {
  auto bytes = [](const CodecSpec&, std::int64_t count, std::int64_t /*bytes of a value*/) {
    return aligned(static_cast<std::int64_t>(sizeof(float)) + (count + 7) / 8);
  };
  return {{.name = "sign", .encoded_bytes = bytes, .leaves_out = true}, made<Codec, Sign>};
}
// [end snippet]

}  // namespace plangrad::parallel
