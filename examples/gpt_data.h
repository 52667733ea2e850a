// GptData: text as the microbatches of a run's plans.
// Not here: texts and windows (nn/data/text_data.h).
// Chapter 05.
#pragma once

#include "nn/data/text_data.h"
#include "parallel/session/session.h"

namespace paragrad::examples {

using namespace paragrad::parallel;

/// Windows of a text, copied to where they are needed.
class TextBatches : public Batches {
 public:
  Tensor inputs(int micro, const DevicePtr& device) override {
    return from_host(batch(micro).inputs, shape(micro), device);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return from_host(batch(micro).targets, shape(micro), device);
  }

 private:
  virtual Batch batch(int micro) const = 0;
};

/// Microbatch m is part m % per_step of the batch of step m / per_step, `rows` sequences of it.
class GptBatches : public TextBatches {
 public:
  GptBatches(const TokenData& data, std::uint64_t seed, std::int64_t context, int per_step,
             std::int64_t rows)
      : data_(data), seed_(seed), context_(context), per_step_(per_step), rows_(rows) {}

  Shape shape(int) const override { return {rows_, context_}; }

 private:
  Batch batch(int micro) const override {
    std::int64_t first = micro % per_step_ * rows_;
    return data_.batch(seed_, micro / per_step_, first, first + rows_, context_);
  }

  const TokenData& data_;
  std::uint64_t seed_;
  std::int64_t context_;
  int per_step_;
  std::int64_t rows_;
};

/// Windows of the validation text, `rows` at a time; of about `limit` such batches, spread evenly.
class GptValidation : public TextBatches {
 public:
  GptValidation(const TokenData& data, std::int64_t context, std::int64_t rows, int limit)
      : data_(data), context_(context) {
    std::int64_t windows = data.evaluation_windows(context), batches = (windows + rows - 1) / rows;
    std::int64_t stride = limit > 0 ? (batches + limit - 1) / limit : 1;
    for (std::int64_t b = 0; b < batches; b += stride)
      windows_.emplace_back(b * rows, std::min((b + 1) * rows, windows));
  }

  /// The number of windows in each microbatch.
  std::vector<double> weights() const {
    std::vector<double> result;
    for (auto [first, last] : windows_) result.push_back(static_cast<double>(last - first));
    return result;
  }
  Shape shape(int micro) const override {
    auto [first, last] = windows_.at(micro);
    return {last - first, context_};
  }

 private:
  Batch batch(int micro) const override {
    auto [first, last] = windows_.at(micro);
    return data_.evaluation_batch(first, last, context_);
  }

  const TokenData& data_;
  std::int64_t context_;
  std::vector<std::pair<std::int64_t, std::int64_t>> windows_;
};

/// One rank's view of a text; the text itself is shared.
class GptData : public RunData {
 public:
  GptData(const TextData& text, const GptBatches& training, std::int64_t context, std::int64_t rows)
      : training_(training),
        few_(text.validation, context, rows, 20),
        all_(text.validation, context, rows, 0) {}

  Batches& training() override { return training_; }
  Batches& validation(bool all) override { return all ? all_ : few_; }
  std::vector<double> validation_weights(bool all) const override {
    return (all ? all_ : few_).weights();
  }

 private:
  GptBatches training_;
  GptValidation few_, all_;
};

}  // namespace paragrad::examples
