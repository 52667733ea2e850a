// TextExamples: sequences of a text as the examples of a run.
// Not here: texts and windows (nn/data/text_data.h), and microbatches (run_data.h).
// Chapter 05.
#pragma once

#include "examples/common/run_data.h"
#include "nn/data/text_data.h"

namespace paragrad::examples {

/// Windows of `context` tokens: for training where `seed` says, for validation one after the other.
/// shapes: inputs and targets (N,context)
class TextExamples : public Examples {
 public:
  TextExamples(std::shared_ptr<const TextData> text, std::uint64_t seed, std::int64_t context)
      : text_(std::move(text)), seed_(seed), context_(context) {}

  std::int64_t validation_size() const override;
  Shape shape(const Part& part) const override { return {part.size(), context_}; }
  Tensor inputs(const Part& part, const DevicePtr& device) const override;
  Tensor targets(const Part& part, const DevicePtr& device) const override;

 private:
  Batch batch(const Part& part) const;

  std::shared_ptr<const TextData> text_;
  std::uint64_t seed_;
  std::int64_t context_;
};

}  // namespace paragrad::examples
