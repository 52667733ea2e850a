// Runs of a small GPT whose messages are encoded, by the engine and by the serial interpreter: what
// tests of codecs in plans share.
// Not here: codecs without plans (coded_sums.h).
#pragma once

#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

/// One that trains, or not: as users type it.
struct CodedRun {
  std::string schedule, codec = "none", channel = "none", reduction = "scatter";
  Setting setting = Setting::data;  ///< of cyclic schedules
  int zero = 0;
  bool clip = false, tied = false;
  int stages = 3;  ///< of cyclic schedules
  Bits bits = {};  ///< of layers after the first plan
};

inline std::ostream& operator<<(std::ostream& out, const CodedRun& run) {
  out << run.schedule << " --codec " << run.codec << " --codec-channel " << run.channel
      << " --reduction " << run.reduction << " --zero " << run.zero;
  if (is_cyclic(run.schedule))
    for (const auto& [name, setting] : settings())
      if (setting == run.setting) out << " --setting " << name;
  return out << (run.clip ? " clip" : "") << (run.tied ? " tied" : "");
}

/// 2 blocks of width 32: all matrices but the positions' have 1024 elements or more.
inline GptConfig coded_gpt(bool tied) { return {2, 2, 32, 8, 40, 0, tied}; }

/// On four ranks; a cyclic one on as many as it has stages, or more.
inline Layout layout_of(const CodedRun& run, int steps) {
  Layout layout{.stages = 2, .width = 2, .microbatches = 2, .steps = steps};
  if (run.schedule == "data") layout.width = 4;
  if (is_chunked(run.schedule)) layout = fitted(run.schedule, layout);
  if (is_cyclic(run.schedule)) layout.stages = run.stages, layout.width = layout.microbatches = 1;
  layout.clip = run.clip;
  layout.tied = run.tied;
  layout.setting = run.setting;
  layout.zero = run.zero;
  layout.codec = parse_codec(run.codec);
  layout.channel = parse_codec(run.channel);
  return layout;
}

inline Training training_of(const CodedRun& run) {
  Training training(gpt(coded_gpt(run.tied)), layout_of(run, 1).stages);
  training.clip = run.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 1, 8};
  return training;
}

/// Pairs of ranks that are on one host.
inline std::vector<int> hosts_of(int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / 2);
  return hosts;
}

/// `plans` plans of so many steps, by the engine. `capacity` 0: rendezvous.
inline Outcome by_engine(const CodedRun& run, int plans, int steps, int capacity = 0) {
  SmallBatches batches(coded_gpt(run.tied));
  const auto verified = plans_of(run.schedule, layout_of(run, steps), plans);
  return run_by_engine(training_of(run), verified, batches, capacity,
                       reductions().at(run.reduction), hosts_of(verified[0].plan().ranks()),
                       run.bits);
}

inline Outcome serially(const CodedRun& run, int plans, int steps) {
  SmallBatches batches(coded_gpt(run.tied));
  const auto verified = plans_of(run.schedule, layout_of(run, steps), plans);
  return run_serially(training_of(run), verified, batches, reductions().at(run.reduction),
                      hosts_of(verified[0].plan().ranks()), run.bits);
}

}  // namespace plangrad::tests
