// none and bf16: every value travels, as it is or rounded to bf16.
// Not here: training in bf16, in which all values are bf16 already. Chapter 10.
#include "parallel/codecs/codec.h"

namespace plangrad::parallel {
namespace {

class Plain : public Codec {
 public:
  using Codec::Codec;

  bool encode(const Tensor& x, RandomKey, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    x.backend().copy(x, as_values(bytes, x));
    return true;
  }
  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    y.backend().copy(as_values(bytes, y), y);
  }

 private:
  DType wire_dtype(const Tensor& x) const { return spec_.is_none() ? x.dtype() : DType::bf16; }
  /// The message as a tensor of the type in which values travel.
  Tensor as_values(const Tensor& bytes, const Tensor& x) const {
    std::int64_t offset = bytes.raw() - bytes.storage()->data(), size = size_of(wire_dtype(x));
    return {bytes.storage(), offset / size, x.shape(), wire_dtype(x)};
  }
};

}  // namespace

CodecEntry none_codec() {
  auto bytes = [](const CodecSpec&, std::int64_t count, std::int64_t element) {
    return count * element;
  };
  return {{.name = "none", .encoded_bytes = bytes, .keeps_bf16 = true}, made<Codec, Plain>};
}

CodecEntry bf16_codec() {
  auto bytes = [](const CodecSpec&, std::int64_t count, std::int64_t) { return count * 2; };
  return {{.name = "bf16", .encoded_bytes = bytes, .keeps_bf16 = true}, made<Codec, Plain>};
}

}  // namespace plangrad::parallel
