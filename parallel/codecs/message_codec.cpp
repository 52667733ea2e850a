// A gradient's message holds the encoded parts of a range in the order of the layers, then the
// other parts. A sparse message of an activation holds the indices of its slots, then their values;
// both ends keep it until the gradient comes back and replaces these values. Chapter 10.
#include "parallel/codecs/message_codec.h"

#include <limits>

namespace plangrad::parallel {

void check_encodable(bool finite, const std::string& what) {
  PG_CHECK(finite, what, " not finite, so there is no code for it; ", when_not_finite);
}

/// A part of a message as f32 values.
static Tensor as_f32(const Tensor& bytes, Range place) {
  const std::int64_t begin = bytes.raw() - bytes.storage()->data() + place.begin;
  return {bytes.storage(), begin / 4, {place.size() / 4}, DType::f32};
}

static Tensor flat(const Tensor& x) { return x.window(0, {x.numel()}); }

static void check(const Instruction& x, bool finite) {
  check_encodable(
      finite, text("microbatch ", x.micro, ": ", message_kind(x), " of stage ", x.stage, " are"));
}

BufferCodec::BufferCodec(const nn::ParameterList& parameters, const CodecSpec& spec,
                         RandomKey source, const DevicePtr& device)
    : spec_(spec), source_(source) {
  for (const nn::Parameter& parameter : parameters) {
    const Range range{parameter.offset, parameter.offset + parameter.shape.numel()};
    layers_.push_back({&parameter, range, is_encoded(parameter) ? make_codec(spec) : nullptr});
  }
  if (!leaves_out(spec) || std::ranges::none_of(parameters, is_encoded)) return;
  residual_ = empty({parameters.numel()}, DType::f32, device, Category::communication);
  device->backend().fill(0, residual_);
}

template <class Visit>
void BufferCodec::for_each_part(Range range, Visit visit) const {
  std::int64_t at = 0;
  for (bool encoded : {true, false})
    for (const Layer& layer : layers_) {
      const Range part = common(layer.range, range);
      if ((layer.codec != nullptr) != encoded || part.size() <= 0) continue;
      const std::int64_t size = encoded ? layer.codec->encoded_bytes(part.size(), DType::f32)
                                        : part.size() * size_of(DType::f32);
      visit(layer, part, Range{at, at + size});
      at += encoded ? aligned(size) : size;
    }
}

std::int64_t BufferCodec::encoded_bytes(Range range) const {
  std::int64_t bytes = 0;
  for_each_part(range, [&](const Layer& layer, Range, Range place) {
    bytes = layer.codec ? aligned(place.end) : place.end;
  });
  return bytes;
}

// [snippet encode]
void BufferCodec::encode(const Tensor& values, Range range, int version, bool take_back,
                         const Tensor& bytes) {
  for_each_part(range, [&](const Layer& layer, Range part, Range place) {
    Tensor x = values.window(part.begin - range.begin, {part.size()});
    if (!layer.codec) return values.backend().copy(x, as_f32(bytes, place));
    Tensor left_out;
    if (residual_.defined()) {
      left_out = residual_.window(part.begin, {part.size()});
      values.backend().accumulate(left_out, x);
    }
    Tensor code = bytes.window(place.begin, {place.size()});
    const RandomKey key(source_.low, text(source_.high, ' ', version, ' ', part.begin));
    check_encodable(layer.codec->encode(x, key, part.begin, code),
                    text("step ", version, ": the gradient of ", layer.parameter->name, " is"));
    if (left_out.defined()) {  // x - decoded
      layer.codec->decode(code, left_out);
      values.backend().binary(Binary::subtract, x, left_out, left_out);
    }
    if (take_back) layer.codec->decode(code, x);
  });
}
// [end snippet]

void BufferCodec::decode(const Tensor& bytes, Range range, const Tensor& values) const {
  for_each_part(range, [&](const Layer& layer, Range part, Range place) {
    Tensor y = values.window(part.begin - range.begin, {part.size()});
    if (!layer.codec) return values.backend().copy(as_f32(bytes, place), y);
    layer.codec->decode(bytes.window(place.begin, {place.size()}), y);
  });
}

// [snippet measure]
BitOptions BufferCodec::bit_options(const Tensor& values) const {
  BitOptions all;
  CodecSpec spec = spec_;
  for (const Layer& layer : layers_) {
    if (!layer.codec) continue;
    const Tensor x = values.window(layer.range.begin, {layer.range.size()});
    const Tensor y = empty(x.shape(), x.dtype(), x.device(), Category::communication);
    for (spec.bits = 1; spec.bits <= 8; ++spec.bits) {
      const auto codec = make_codec(spec);
      const std::int64_t size = codec->encoded_bytes(x.numel(), x.dtype());
      const Tensor bytes = room_for_code(size, x.device());
      double error = std::numeric_limits<double>::quiet_NaN();
      if (codec->encode(x, source_, layer.range.begin, bytes)) {
        codec->decode(bytes, y);
        y.backend().binary(Binary::subtract, x, y, y);
        error = y.backend().sums_of_squares({y})[0];
      }
      all[layer.parameter->name].push_back({size, error});
    }
  }
  return all;
}
// [end snippet]

void BufferCodec::set_bits(const Bits& bits) {
  for (Layer& layer : layers_) {
    const auto found = bits.find(layer.parameter->name);
    if (!layer.codec || found == bits.end()) continue;
    PG_CHECK(found->second >= 1 && found->second <= 8, "codec ", print(spec_), ": ", found->first,
             " can't have ", found->second, " bits; use 1 to 8");
    CodecSpec spec = spec_;
    spec.bits = found->second;
    layer.codec = make_codec(spec);
  }
}

CodecMemory BufferCodec::state() const {
  CodecMemory all;
  for (const Layer& layer : layers_)
    if (layer.codec) all.merge(layer.codec->state());
  return all;
}

void BufferCodec::restore(const CodecMemory& state) {
  for (const Layer& layer : layers_)
    if (layer.codec)
      layer.codec->restore(
          {state.lower_bound(layer.range.begin), state.lower_bound(layer.range.end)});
}

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
