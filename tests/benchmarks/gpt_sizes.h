// What benchmarks of training share: two GPTs, tokens for them, clock and median.
// Not here: what is measured. Chapter 03.
#pragma once

#include "nn/models/gpt.h"
#include "parallel/engine/training.h"

namespace plangrad::benchmarks {

using namespace plangrad::parallel;

struct Size {
  std::string name;
  GptConfig config;
  int batch;  ///< sequences in a step
};

/// nanoGPT's demo for the CPU, and one whose operations are worth a thread.
inline const Size sizes[] = {{"small", {4, 4, 128, 64, 65, 0, true}, 12},
                             {"larger", {6, 6, 384, 256, 65, 0, true}, 8}};

/// How often ids occur: alike, or the k-th about as 1/k (Zipf's law), as words of a text do. Speed
/// depends on it only where gradients of equal ids are added up.
enum class Ids { uniform, zipf };

/// One batch, the same in every step, cut into microbatches. Its ids have no meaning. Ranks that
/// are threads may share it.
class SameTokens : public Batches {
 public:
  SameTokens(const Size& size, int microbatches, Ids kind = Ids::uniform)
      : shape_{size.batch / microbatches, size.config.context}, microbatches_(microbatches) {
    PG_CHECK(size.batch % microbatches == 0, microbatches,
             " microbatches do not divide a batch of ", size.batch);
    ids_.resize(static_cast<std::size_t>(size.batch) * size.config.context);
    RandomKey key(1, "tokens");
    const std::int64_t count = size.config.vocabulary;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const std::int64_t id =
          kind == Ids::uniform
              ? uniform_integer(key, i, count)
              : static_cast<std::int64_t>(std::pow(count + 1.0, uniform(key, i))) - 1;
      ids_[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(id, 0, count - 1));
    }
  }

  Shape shape(int) const override { return shape_; }
  Tensor inputs(int micro, const DevicePtr& device) override {
    auto first = ids_.begin() + micro % microbatches_ * shape_.numel();
    return from_host(std::vector<std::int32_t>(first, first + shape_.numel()), shape_, device);
  }
  Tensor targets(int micro, const DevicePtr& device) override { return inputs(micro, device); }
  /// Tokens in a step.
  std::int64_t numel() const { return static_cast<std::int64_t>(ids_.size()); }

 private:
  Shape shape_;
  int microbatches_;
  std::vector<std::int32_t> ids_;
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace plangrad::benchmarks
