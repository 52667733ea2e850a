// GptRun: the flags that train_gpt adds to those of all training programs: a GPT, its text and its
// optimizer; TextExamples: sequences of the text. Not here: the program (examples/train_gpt.cpp),
// texts and windows (nn/data/text_data.h). Chapters 02 and 05.
#pragma once

#include "examples/programs/run_data.h"
#include "examples/programs/run_flags.h"
#include "nn/data/text_data.h"
#include "nn/models/gpt.h"
#include "parallel/engine/training.h"

namespace plangrad::examples {

struct GptRun : RunFlags {
  GptRun();

  GptConfig model{4, 4, 128, 64, 0, 0, true};  // its vocabulary comes with the data
  std::string vocabulary;
  std::filesystem::path validation, from;
  double weight_decay = 0.1, beta2 = 0.99;
  bool untied = false;

  /// Adds every flag.
  void add_flags(Flags& flags);
  /// Parses a command line, or a saved run's flags and what the command line adds.
  /// throws: Error if a flag contradicts the saved run, or asks for something this build lacks
  void parse(Flags& flags, const Words& words);

  /// throws: Error if no such model exists, or needs more memory than there is
  void check_model(int tokens) const;
  /// Reads the text or the token ids; without --vocab, text is cut into characters.
  TextData load_data() const;
  parallel::MakeOptimizer optimizer() const;
  /// Reads the weights that the run begins with; null without --from, and for a resumed run.
  std::function<void(const ParameterList&, const Tensor&)> first_weights() const;

 private:
  void take_model();
};

/// Windows of `context` tokens: at places drawn from `seed` in training, consecutive in validation.
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

}  // namespace plangrad::examples
