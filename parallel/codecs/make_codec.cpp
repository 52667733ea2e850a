// From what is asked for to the codec that does it.
// Not here: the codecs (plain.cpp, quantize.cpp, top_k.cpp, threshold.cpp).
// Chapter 10.
#include "parallel/codecs/local_codecs.h"

namespace paragrad::parallel {

std::unique_ptr<Codec> make_codec(const CodecSpec& spec) {
  using Kind = CodecSpec::Kind;
  switch (spec.kind) {
    case Kind::none:
    case Kind::bf16: return make_plain(spec);
    case Kind::quantize:
    case Kind::adaptive: return make_quantize(spec);
    case Kind::topk: return make_top_k(spec);
    case Kind::threshold: return make_threshold(spec);
    default:
      throw Error(text("codec ", print(spec),
                       " needs a whole group's sum; for single messages use quantize:4, bf16, "
                       "topk:0.01 or threshold:0.01"));
  }
}

void LocalCodec::check_size(const Tensor& x, const Tensor& bytes) const {
  std::int64_t expected = encoded_bytes(x.numel(), x.dtype());
  PG_CHECK(bytes.numel() == expected, "codec ", print(spec_), ": ", x.numel(), " values of ",
           x.dtype(), " take ", expected, " bytes, got room for ", bytes.numel());
}

}  // namespace paragrad::parallel
