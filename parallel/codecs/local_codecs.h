// The codecs that act on one buffer, each in a file of its own.
// Not here: what they have in common with the others (codec.h).
// Chapter 10.
#pragma once

#include "autograd/backend.h"
#include "parallel/codecs/codec.h"

namespace paragrad::parallel {

/// A codec that a CodecSpec describes.
class LocalCodec : public Codec {
 public:
  explicit LocalCodec(const CodecSpec& spec) : spec_(spec) {}
  std::int64_t encoded_bytes(std::int64_t count, DType dtype) const final {
    return parallel::encoded_bytes(spec_, count, size_of(dtype));
  }

 protected:
  const CodecSpec& spec() const { return spec_; }
  /// throws: Error if x's encoding does not have the size of `bytes`
  void check_size(const Tensor& x, const Tensor& bytes) const;

 private:
  CodecSpec spec_;
};

std::unique_ptr<Codec> make_plain(const CodecSpec& spec);     // none, bf16
std::unique_ptr<Codec> make_quantize(const CodecSpec& spec);  // quantize, adaptive
std::unique_ptr<Codec> make_top_k(const CodecSpec& spec);
std::unique_ptr<Codec> make_threshold(const CodecSpec& spec);

}  // namespace paragrad::parallel
