// train_gpt's flags, described once: that takes longer than to read a command line.
// Not here: what is read (targets/flags.cpp, targets/checkpoint.cpp).
#pragma once

#include "examples/programs/gpt_run.h"
#include "examples/programs/program.h"

namespace plangrad::fuzz {

struct Program {
  CLI::App app{"", "train_gpt"};
  examples::GptRun run;
  Program() { run.add_flags(app); }
};

/// The program with the flags' defaults.
inline Program& program() {
  static Program program;
  program.run = {};
  return program;
}

}  // namespace plangrad::fuzz
