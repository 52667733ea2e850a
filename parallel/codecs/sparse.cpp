// topk and threshold: the values of largest magnitude travel with their indices, the others count
// as zero. Not here: what becomes of the others; error feedback adds them to the next values
// (message_codec.h). Chapter 10; Gupta et al. 2021 (threshold).
#include <algorithm>
#include <limits>

#include "parallel/codecs/codec.h"

namespace plangrad::parallel {
namespace {

/// Values that a message of `count` has room for: k = ceil(FRACTION count).
std::int64_t slots(const CodecSpec& spec, std::int64_t count) {
  // 0.07 * 100 is a little more than 7 in a double.
  double exact = spec.fraction * static_cast<double>(count) * (1 - 1e-12);
  return std::min(count, static_cast<std::int64_t>(std::ceil(exact)));
}

class SparseCodec : public Codec {
 public:
  using Codec::Codec;
  void decode(const Tensor& bytes, const Tensor& y) const final {
    check_size(y, bytes);
    y.backend().scatter(bytes, y);
  }
};

/// Sends the k = ceil(fraction n) values of largest magnitude; of equal ones, those of lower index.
class TopK : public SparseCodec {
 public:
  using SparseCodec::SparseCodec;

  bool encode(const Tensor& x, RandomKey, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    if (x.numel() == 0) return true;
    Magnitude least = x.backend().magnitude(x, slots(spec_, x.numel()));
    Selection which{.threshold = least.value, .equal = least.equal};
    return x.backend().select(x, which, bytes).finite;
  }
};

/// Sends the values whose magnitude reaches a threshold. Finding the largest k takes several passes
/// over the values; the threshold found so serves for many messages.
/// Unlike the paper's, messages keep one size, that of k values, for which they have slots: if
/// fewer values reach the threshold, slots stay empty; if more do, the rest is left out, the next
/// message begins with the first of them, and it sets the threshold anew.
/// source: Gupta et al. 2021, "Training recommender systems at scale: communication-efficient model
///         and data parallelism" (dynamic communication thresholding)
class Threshold : public SparseCodec {
 public:
  using SparseCodec::SparseCodec;

  bool encode(const Tensor& x, RandomKey, std::int64_t place, const Tensor& bytes) override;
  CodecMemory state() const override { return memory_; }
  void restore(const CodecMemory& state) override;

 private:
  // Three numbers: the threshold, the uses that it still serves, the next message's first element.
  CodecMemory memory_;
};

// [snippet threshold]
bool Threshold::encode(const Tensor& x, RandomKey, std::int64_t place, const Tensor& bytes) {
  check_size(x, bytes);
  if (x.numel() == 0) return true;
  std::vector<double>& memory = memory_.try_emplace(place, std::vector<double>(3)).first->second;
  double &threshold = memory[0], &uses = memory[1], &next = memory[2];
  if (uses == 0) {
    // Zeros need no slot.
    constexpr double least = std::numeric_limits<float>::denorm_min();
    double found = x.backend().magnitude(x, slots(spec_, x.numel())).value;
    threshold = std::max(found, least);
    uses = spec_.period;
  }
  const auto first = static_cast<std::int64_t>(next);
  Selection which{threshold, x.numel(), first < x.numel() ? first : 0};
  Selected selected = x.backend().select(x, which, bytes);
  --uses;
  if (selected.left >= 0) uses = 0, next = static_cast<double>(selected.left);
  return selected.finite;
}
// [end snippet]

void Threshold::restore(const CodecMemory& state) {
  auto counts = [](double number) { return number >= 0 && number <= INT32_MAX; };
  for (const auto& [place, numbers] : state) {
    PG_CHECK(numbers.size() == 3, "codec ", print(spec_),
             ": 3 numbers are kept of each place, got ", numbers.size(),
             "; the checkpoint is of another codec");
    PG_CHECK(numbers[0] >= 0 && counts(numbers[1]) && counts(numbers[2]), "codec ", print(spec_),
             ": a threshold of ", numbers[0], " for ", numbers[1], " uses, from element ",
             numbers[2], " on, makes no sense; the checkpoint is damaged");
  }
  memory_ = state;
}

/// The kind NAME:FRACTION, whose messages take (4 + element) k bytes.
CodecKind sparse_kind(const char* name) {
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

}  // namespace

CodecEntry topk_codec() { return {sparse_kind("topk"), made<Codec, TopK>}; }

CodecEntry threshold_codec() {
  CodecKind kind = sparse_kind("threshold");
  kind.numbers.push_back(period_number);
  return {kind, made<Codec, Threshold>};
}

}  // namespace plangrad::parallel
