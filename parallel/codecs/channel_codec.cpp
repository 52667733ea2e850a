// A sparse message holds the indices of its slots, then their values. Both ends keep the message of
// an activation until the gradient comes back and replaces these values.
// Chapter 10.
#include "parallel/codecs/channel_codec.h"

namespace plangrad::parallel {
namespace {

Tensor flat(const Tensor& x) { return x.window(0, {x.numel()}); }

void check(const Instruction& x, bool finite) {
  check_encodable(
      finite, text("microbatch ", x.micro, ": ", message_kind(x), " of stage ", x.stage, " are"));
}

}  // namespace

ChannelCodec::ChannelCodec(const CodecSpec& spec, RandomKey source)
    : spec_(spec),
      sparse_(spec.kind().index_bytes != nullptr),
      source_(source),
      codec_(make_codec(spec)) {}

std::int64_t ChannelCodec::encoded_bytes(const Instruction& x, std::int64_t count,
                                         DType dtype) const {
  return codec_->encoded_bytes(count, dtype) - (has_mask(x) ? index_bytes(spec_, count) : 0);
}

void ChannelCodec::encode(const Instruction& x, const Tensor& value, const Tensor& bytes) {
  if (has_mask(x)) {
    const Tensor mask = take_mask(x);
    check(x, all_finite(value));
    value.backend().collect(value, mask);
    const std::int64_t indices = index_bytes(spec_, value.numel());
    return value.backend().copy(mask.window(indices, {mask.numel() - indices}), bytes);
  }
  const RandomKey key(source_.low, text(source_.high, ' ', print(x)));
  check(x, codec_->encode(flat(value), key, x.stage, bytes));
  if (sparse_) masks_[{x.stage, x.micro}] = bytes;
}

void ChannelCodec::decode(const Instruction& x, const Tensor& bytes, const Tensor& value) {
  if (!has_mask(x)) {
    codec_->decode(bytes, flat(value));
    if (sparse_) masks_[{x.stage, x.micro}] = bytes;
    return;
  }
  const Tensor mask = take_mask(x);
  const std::int64_t indices = index_bytes(spec_, value.numel());
  value.backend().copy(bytes, mask.window(indices, {bytes.numel()}));
  value.backend().scatter(mask, flat(value));
}

Tensor ChannelCodec::take_mask(const Instruction& x) {
  auto mask = masks_.extract({x.stage, x.micro});
  PG_CHECK(mask, "no activation of stage ", x.stage, " passed here for microbatch ", x.micro);
  return mask.mapped();
}

}  // namespace plangrad::parallel
