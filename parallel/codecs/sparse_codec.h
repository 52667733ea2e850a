// SparseCodec: what codecs share that send a fraction of the values, with their indices.
// Not here: which values (top_k.cpp, threshold.cpp); what becomes of the others (buffer_codec.h).
// Chapter 10.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/backend.h"
#include "parallel/codecs/register.h"

namespace paragrad::parallel {

/// Values that a message of `count` has room for: k = ceil(FRACTION count).
inline std::int64_t slots(const CodecSpec& spec, std::int64_t count) {
  // 0.07 * 100 is a little more than 7 in a double.
  double exact = spec.fraction * static_cast<double>(count) * (1 - 1e-12);
  return std::min(count, static_cast<std::int64_t>(std::ceil(exact)));
}

class SparseCodec : public LocalCodec {
 public:
  using LocalCodec::LocalCodec;
  void decode(const Tensor& bytes, const Tensor& y) const final {
    check_size(y, bytes);
    y.backend().scatter(bytes, y);
  }

 protected:
  std::int64_t slots(const Tensor& x) const { return parallel::slots(spec(), x.numel()); }
};

/// NAME:FRACTION, whose messages take (4 + element) k bytes.
inline CodecKind sparse_kind(const char* name) {
  auto indices = [](const CodecSpec& spec, std::int64_t count) { return 4 * slots(spec, count); };
  auto bytes = [](const CodecSpec& spec, std::int64_t count, std::int64_t element) {
    return (4 + element) * slots(spec, count);
  };
  const CodecNumber fraction{"FRACTION",
                             &CodecSpec::fraction,
                             "the fraction of values to send",
                             "use more than 0, at most 1, such as topk:0.01",
                             std::numeric_limits<double>::denorm_min(),
                             1,
                             false};
  return {.name = name,
          .numbers = {fraction},
          .encoded_bytes = bytes,
          .index_bytes = indices,
          .leaves_out = true};
}

}  // namespace paragrad::parallel
