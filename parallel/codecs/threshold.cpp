// threshold: the values whose magnitude reaches a threshold travel with their indices. To find the
// largest k takes several passes over the values; the threshold so found serves for many messages.
// Not here: what becomes of the others; error feedback adds them to the next values.
// Chapter 10; Gupta et al. 2021, "Training recommender systems at scale: communication-efficient
// model and data parallelism" (dynamic communication thresholding).
#include <algorithm>
#include <limits>

#include "parallel/codecs/sparse_codec.h"

namespace paragrad::parallel {

namespace {

/// Unlike the paper's, messages keep one size, that of k values, for which they have slots: if
/// fewer values reach the threshold, slots stay empty; if more do, the rest is left out, the next
/// message begins with the first of them, and it sets the threshold anew.
class Threshold : public SparseCodec {
 public:
  using SparseCodec::SparseCodec;

  bool encode(const Tensor& x, RandomKey, std::int64_t place, const Tensor& bytes) override;
  /// Any value may find no slot.
  double error_bound(const Tensor& x) const override {
    return x.numel() ? x.backend().magnitude(x, 1).value : 0;
  }

  std::map<std::int64_t, std::vector<double>> state() const override;
  void restore(const std::map<std::int64_t, std::vector<double>>& state) override;

 private:
  struct Memory {
    double threshold = 0;
    int uses = 0;            ///< for which the threshold still serves
    std::int64_t first = 0;  ///< the element with which the next message begins
  };
  std::map<std::int64_t, Memory> memory_;  // by place
};

// [snippet threshold]
bool Threshold::encode(const Tensor& x, RandomKey, std::int64_t place, const Tensor& bytes) {
  check_size(x, bytes);
  if (x.numel() == 0) return true;
  Memory& memory = memory_[place];
  if (memory.uses == 0) {
    // Zeros need no slot.
    constexpr double least = std::numeric_limits<float>::denorm_min();
    double found = x.backend().magnitude(x, slots(x)).value;
    memory = {std::max(found, least), spec().period, memory.first};
  }
  Selection which{memory.threshold, x.numel(), memory.first < x.numel() ? memory.first : 0};
  Selected selected = x.backend().select(x, which, bytes);
  --memory.uses;
  if (selected.left >= 0) memory = {memory.threshold, 0, selected.left};
  return selected.finite;
}
// [end snippet]

std::map<std::int64_t, std::vector<double>> Threshold::state() const {
  std::map<std::int64_t, std::vector<double>> state;
  for (const auto& [place, m] : memory_)
    state[place] = {m.threshold, static_cast<double>(m.uses), static_cast<double>(m.first)};
  return state;
}

void Threshold::restore(const std::map<std::int64_t, std::vector<double>>& state) {
  memory_.clear();
  for (const auto& [place, m] : state) {
    PG_CHECK(m.size() == 3, "codec ", print(spec()), ": 3 numbers are kept of each place, got ",
             m.size(), "; the checkpoint is of another codec");
    memory_[place] = {m[0], static_cast<int>(m[1]), static_cast<std::int64_t>(m[2])};
  }
}

}  // namespace

CodecEntry threshold_codec() {
  CodecKind kind = sparse_kind("threshold");
  kind.numbers.push_back(period_number);
  return {kind, made<Codec, Threshold>};
}

}  // namespace paragrad::parallel
