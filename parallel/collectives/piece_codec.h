// PieceCodec: how a collective's pieces are written in fewer bytes, and read back.
// Not here: what does so (codecs/buffer_codec.h).
// Chapter 10.
#pragma once

#include "autograd/tensor.h"
#include "parallel/collectives/collective.h"

namespace paragrad::parallel {

/// One rank's, for one buffer. Used by one thread at a time.
class PieceCodec {
 public:
  virtual ~PieceCodec() = default;
  /// Bytes of the elements of a range of the buffer.
  virtual std::int64_t encoded_bytes(Range range) const = 0;
  /// Writes `values`, that range of a sum towards `version`, to `bytes`. With `take_back`, `values`
  /// becomes what decode() makes of the bytes, so that the sender has what the receivers have.
  /// throws: Error if a value is not finite
  virtual void encode(const autograd::Tensor& values, Range range, int version, bool take_back,
                      const autograd::Tensor& bytes) = 0;
  virtual void decode(const autograd::Tensor& bytes, Range range,
                      const autograd::Tensor& values) const = 0;
};

}  // namespace paragrad::parallel
