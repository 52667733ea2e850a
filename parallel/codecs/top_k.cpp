// topk: the values of largest magnitude travel with their indices, the others count as zero.
// Not here: what becomes of the others; error feedback adds them to the next values.
// Chapter 10.
#include "parallel/codecs/sparse_codec.h"

namespace paragrad::parallel {

namespace {

/// Exact: k = ceil(fraction n) values; where magnitudes are equal, those of lower index.
class TopK : public SparseCodec {
 public:
  using SparseCodec::SparseCodec;

  bool encode(const Tensor& x, RandomKey, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    if (x.numel() == 0) return true;
    Magnitude least = x.backend().magnitude(x, slots(x));
    Selection which{.threshold = least.value, .equal = least.equal};
    return x.backend().select(x, which, bytes).finite;
  }
  /// The largest value that is left out.
  double error_bound(const Tensor& x) const override {
    std::int64_t k = slots(x);
    return k == x.numel() ? 0 : x.backend().magnitude(x, k + 1).value;
  }
};

}  // namespace

CodecEntry topk_codec() { return {sparse_kind("topk"), made<Codec, TopK>}; }

}  // namespace paragrad::parallel
