// PruneFlags: the flags that say how a run is pruned.
// Not here: the methods, and when they act (sparse/prune_run.h). Chapter 11.
#pragma once

#include "parallel/plan/codec_spec.h"
#include "sparse/prune_run.h"

namespace plangrad::examples {

class Flags;

struct PruneFlags : sparse::PruneSettings {
  /// No flag is given.
  PruneFlags() : PruneSettings{.fraction = 0, .after = -1, .every = 0, .until = 0} {}

  /// Names the flags that a resumed run must keep; --samo and --sparse-compute may change.
  static const std::vector<std::string>& fixed();

  void add_flags(Flags& flags);
  bool given() const { return fraction > 0; }
  /// Whether the method makes only one mask.
  bool once() const { return method == "magnitude" || method == "global" || method == "random"; }
  /// throws: Error if flags contradict each other, the codec, or the length of the run
  void check(const parallel::CodecSpec& codec, const std::string& plan_file, int steps) const;
  /// throws: Error unless pruning begins after the `done` updates of the run that is resumed
  void check_begins(int done, int steps) const;
  /// Returns the settings; defaults of flags that were not given follow from the run's length.
  sparse::PruneSettings settings(int steps, std::uint64_t seed) const;
};

}  // namespace plangrad::examples
