// Each value becomes the number of a level between the extremes of its bucket.
// Not here: the kernels (autograd/cpu/quantize.cpp).
// Chapter 10; Markov et al. 2022, "CGX".
#include "parallel/codecs/quantizer.h"

#include <algorithm>
#include <cmath>

#include "autograd/backend.h"

namespace paragrad::parallel {

namespace {

class Quantized : public LocalCodec {
 public:
  using LocalCodec::LocalCodec;

  bool encode(const Tensor& x, RandomKey key, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    return x.backend().quantize(x, how(), key, bytes);
  }
  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    y.backend().dequantize(bytes, how(), y);
  }
  double error_bound(const Tensor& x) const override;

 private:
  Quantizer how() const { return {spec().bits, spec().bucket, spec().stochastic}; }
  double bound(double unit, double min, DType dtype) const;
};

/// The largest bound of a bucket, found from the levels that it has in a message.
double Quantized::error_bound(const Tensor& x) const {
  CategoryScope category(*x.device(), Category::workspace);
  Tensor bytes = empty({encoded_bytes(x.numel(), x.dtype())}, DType::u8, x.device());
  if (!x.backend().quantize(x, how(), {}, bytes)) return INFINITY;
  std::int64_t buckets = (x.numel() + spec().bucket - 1) / spec().bucket;
  std::vector<double> levels = to_host(Tensor(bytes.storage(), 0, {buckets, 2}, x.dtype()));
  double result = 0;
  for (std::int64_t i = 0; i < buckets; ++i)
    result = std::max(result, bound(levels[2 * i], levels[2 * i + 1], x.dtype()));
  return result;
}

/// A value is rounded to a level beside it, by at most a unit; or to the nearest one, by half of
/// that. To this comes the rounding of results: of steps / unit to f32, of levels to their type.
double Quantized::bound(double unit, double min, DType dtype) const {
  double steps = (1 << spec().bits) - 1, range = unit * steps;
  if (unit < 1e-10) return range;  // all become the minimum
  double share = spec().stochastic ? 1 : 0.5;
  double relative = dtype == DType::bf16 ? 0x1p-8 : 0x1p-23;
  double largest = std::max(std::abs(min), std::abs(min + range));
  return share * unit + range * 0x1p-21 + largest * relative;
}

}  // namespace

CodecEntry quantizer(CodecKind kind) {
  kind.encoded_bytes = [](const CodecSpec& spec, std::int64_t count, std::int64_t element) {
    const std::int64_t buckets = (count + spec.bucket - 1) / spec.bucket;
    return 2 * buckets * element + aligned((count * spec.bits + 7) / 8);
  };
  return {kind, made<Codec, Quantized>};
}

}  // namespace paragrad::parallel
