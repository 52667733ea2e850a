// GptRun: the flags of train_gpt beside those that all training programs have: a GPT, its text and
// its optimizer. Not here: what they lead to (examples/train_gpt.cpp).
// Chapter 02.
#pragma once

#include "examples/common/run_flags.h"
#include "nn/data/text_data.h"
#include "nn/models/gpt.h"
#include "parallel/engine/training.h"

namespace paragrad::examples {

struct GptRun : RunFlags {
  GptRun();

  GptConfig model{4, 4, 128, 64, 0, 0, true};  // its vocabulary comes with the data
  std::string vocabulary;
  std::filesystem::path validation;
  double weight_decay = 0.1, beta2 = 0.99;
  bool untied = false;

  /// Describes every flag to `app`.
  void add_flags(CLI::App& app);
  /// Parses a command line, or a saved run's flags and what the command line adds.
  /// throws: Error if a flag contradicts the saved run, or asks for what this build has not
  void parse(CLI::App& app, int argc, char** argv);

  /// Text without --vocab is cut into characters.
  TextData load_data() const;
  parallel::MakeOptimizer optimizer() const;

 private:
  void check_model() const;
};

}  // namespace paragrad::examples
