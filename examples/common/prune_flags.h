// PruneFlags: how a run is pruned on its way, as a command line gives it.
// Not here: methods and when they act (sparse/prune_run.h).
// Chapter 11.
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/codec_spec.h"
#include "sparse/prune_run.h"

namespace paragrad::examples {

class Flags;

struct PruneFlags : sparse::PruneSettings {
  /// Nothing is given.
  PruneFlags() : PruneSettings{.fraction = 0, .after = -1, .every = 0, .until = 0} {}

  /// The flags that must stay as they were when a run is resumed; --samo and --sparse-compute may
  /// change.
  static const std::vector<std::string>& fixed();

  void add_flags(Flags& flags);
  bool given() const { return fraction > 0; }
  /// Whether there is only one mask.
  bool once() const { return method == "magnitude" || method == "global" || method == "random"; }
  /// throws: Error if flags contradict each other, the codec, or the length of the run
  void check(const parallel::CodecSpec& codec, const std::string& plan_file, int steps) const;
  /// throws: Error unless pruning begins after `done` updates, those of a run that goes on
  void check_begins(int done, int steps) const;
  /// What was not given has its default, which follows from the run's length.
  sparse::PruneSettings settings(int steps, std::uint64_t seed) const;
};

}  // namespace paragrad::examples
