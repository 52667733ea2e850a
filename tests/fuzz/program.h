// train_gpt's flags, described once: that takes longer than to read a command line; and what a run
// makes of them before it starts.
// Not here: what is read (targets/flags.cpp, targets/resume.cpp, targets/checkpoint.cpp).
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>

#include "examples/programs/gpt_run.h"
#include "examples/programs/program.h"
#include "examples/programs/run_layout.h"
#include "parallel/session/observer.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

struct Program {
  examples::Flags flags{"", "train_gpt"};
  examples::GptRun run;
  Program() { run.add_flags(flags); }
};

/// The program with the flags' defaults.
inline Program& program() {
  static Program program;
  program.run = {};
  return program;
}

/// The lines of a text.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Reads a command line, without the program's name; null if it has no such flag or value.
inline const examples::GptRun* parsed(std::vector<std::string> words) {
  for (std::string& word : words) word = word.c_str();  // as arguments end
  auto& [flags, run] = program();
  try {
    run.parse(flags, words);
  } catch (const CLI::Error& error) {
    must(error.what() != std::string(), "a refusal says nothing");
    return nullptr;
  }
  return &run;
}

/// Lays a run out over `started` ranks (0: as many as it asks for), up to its first update.
inline void lay_out(const examples::GptRun& run, int started) {
  if (run.parts.plan_file == "-") return;  // standard input
  // A large plan takes time and memory in proportion, and that is no fault.
  const parallel::Layout& asked = run.parts.layout;
  if (std::max({asked.stages, asked.microbatches, asked.width, run.ranks, started}) > 8) return;
  const examples::RunLayout layout(run, started, run.model.tied, 4);
  must(!layout.describe().empty(), "a layout has no description");
  if (layout.first() >= run.steps) return;  // nothing is left to do
  const parallel::Observers observers;
  const parallel::Borders borders(run, layout.first(), observers);
  must(borders.last() > layout.first(), "a session ends before it begins");
  parallel::check_lengths(layout.plans()->lengths(), borders, layout.first());
}

}  // namespace plangrad::fuzz
