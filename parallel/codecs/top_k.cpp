// topk: the values of largest magnitude travel with their indices, the others count as zero.
// Not here: what becomes of the others; error feedback adds them to the next values.
// Chapter 10.
#include "parallel/codecs/local_codecs.h"

namespace paragrad::parallel {

namespace {

/// Exact: k = ceil(fraction n) values; where magnitudes are equal, those of lower index.
class TopK : public LocalCodec {
 public:
  using LocalCodec::LocalCodec;

  bool encode(const Tensor& x, RandomKey, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    if (x.numel() == 0) return true;
    Magnitude least = x.backend().magnitude(x, slots(spec(), x.numel()));
    Selection which{.threshold = least.value, .equal = least.equal};
    return x.backend().select(x, which, bytes).finite;
  }
  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    y.backend().scatter(bytes, y);
  }
  /// The largest value that is left out.
  double error_bound(const Tensor& x) const override {
    std::int64_t k = slots(spec(), x.numel());
    return k == x.numel() ? 0 : x.backend().magnitude(x, k + 1).value;
  }
};

}  // namespace

std::unique_ptr<Codec> make_top_k(const CodecSpec& spec) { return std::make_unique<TopK>(spec); }

}  // namespace paragrad::parallel
