// Selects the examples of each microbatch.
// Not here: the examples themselves (gpt_run.h, resnet_run.h). Chapter 05.
#include "examples/programs/run_data.h"

namespace plangrad::examples {
namespace {

/// Microbatches whose parts are chosen by a function.
class PartBatches : public Batches {
 public:
  PartBatches(const Examples& examples, std::function<Part(int micro)> part)
      : examples_(examples), part_(std::move(part)) {}

  Shape shape(int micro) const override { return examples_.shape(part_(micro)); }
  Tensor inputs(int micro, const DevicePtr& device) override {
    return examples_.inputs(part_(micro), device);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return examples_.targets(part_(micro), device);
  }

 private:
  const Examples& examples_;
  std::function<Part(int micro)> part_;
};

/// Returns parts of the validation data in order, `rows` at a time: about `limit` of them (0: all).
std::vector<Part> validation_parts(std::int64_t size, std::int64_t rows, std::int64_t limit) {
  const std::int64_t count = (size + rows - 1) / rows;
  const std::int64_t stride = limit > 0 ? (count + limit - 1) / limit : 1;
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < count; i += stride)
    parts.push_back({i * rows, std::min((i + 1) * rows, size)});
  return parts;
}

/// The examples of a validation's microbatch: the batch, up to 4,096 tokens or 256 images. More
/// could need memory that training, which divides the batch, does not. It does not depend on the
/// layout, so that losses of layouts can be compared bit for bit.
std::int64_t validated_rows(const Examples& examples, std::int64_t batch) {
  const Shape one = examples.shape({0, 1});
  return std::clamp<std::int64_t>(one.rank() == 2 ? 4096 / one[1] : 256, 1, batch);
}

class PartedData : public RunData {
 public:
  PartedData(std::shared_ptr<const Examples> examples, int per_step, std::int64_t rows,
             std::int64_t batch)
      : examples_(std::move(examples)),
        training_(*examples_,
                  [=](int micro) {
                    const std::int64_t first = micro % per_step * rows;
                    return Part{first, first + rows, micro / per_step};
                  }),
        few_(*examples_, parts_of(batch, 20)),
        all_(*examples_, parts_of(batch, 0)) {}

  Batches& training() override { return training_; }
  Batches& validation(bool all) override { return (all ? all_ : few_).batches; }
  std::vector<double> validation_weights(bool all) const override {
    std::vector<double> result;
    for (const Part& part : (all ? all_ : few_).parts)
      result.push_back(static_cast<double>(part.size()));
    return result;
  }

 private:
  /// Parts of the validation data: as many as `batches` batches have, 0: all.
  std::vector<Part> parts_of(std::int64_t batch, std::int64_t batches) const {
    const std::int64_t rows = validated_rows(*examples_, batch);
    return validation_parts(examples_->validation_size(), rows, batches * batch / rows);
  }

  struct Validation {
    Validation(const Examples& examples, std::vector<Part> all)
        : parts(all), batches(examples, [all = std::move(all)](int i) { return all.at(i); }) {}
    std::vector<Part> parts;
    PartBatches batches;
  };

  std::shared_ptr<const Examples> examples_;
  PartBatches training_;
  Validation few_, all_;
};

}  // namespace

std::unique_ptr<RunData> run_data(std::shared_ptr<const Examples> examples, int per_step,
                                  std::int64_t rows, std::int64_t batch) {
  return std::make_unique<PartedData>(std::move(examples), per_step, rows, batch);
}

}  // namespace plangrad::examples
