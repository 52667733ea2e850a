// Lifetimes: when versions of weights die on a rank, which is after their last reader in its row.
// Not here: the weights themselves (weight_store.h). Chapter 07.
#pragma once

#include <array>
#include <set>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// For each rank, the stages whose state or shard it keeps, the tied one among them: those that
/// `home` assigns to it or, in plans without homes, those whose weights its row reads.
std::vector<std::set<int>> held_stages(const Plan& plan);
/// For each stage, the ranks that keep its state or a shard of it, ascending.
std::vector<std::vector<int>> holders(const Plan& plan);

/// Stages that a rank computes, or whose weights or sums pass through it, held there or not.
std::set<int> visited_stages(const Plan& plan, int rank);
/// Stages whose gradient sums come to a rank or leave it.
std::set<int> summed_stages(const Plan& plan, int rank);

/// The version of the tied stage that each microbatch of the plan uses, by micro - first_micro().
std::vector<int> tied_versions(const Plan& plan);

/// Weights that an instruction needs on its rank, as (stage, version): of its own stage, and of the
/// tied one if its stage uses that.
std::vector<std::pair<int, int>> weights_read(const Plan& plan,
                                              const std::vector<int>& tied_versions,
                                              const Instruction& x);

/// In an endless plan the rest of the run is not known at a bar: a version lives on if some
/// continuation reads it, which is the body, any number of times, and then the tail. Versions and
/// cells are as written; a repetition shifts both.
class Lifetimes {
 public:
  /// tied_versions: the result of the function tied_versions. `plan` must outlive it.
  Lifetimes(const Plan& plan, int rank, const std::vector<int>& tied_versions);

  /// The oldest version of a stage that lives on after the plan; less than 0 if all do.
  int oldest_kept(int stage) const { return plan_.first + plan_.steps - plan_.kept(stage) + 1; }
  /// The last instruction of the row that reads a version; -1 if none does.
  int last_reader(int stage, int version) const;
  /// Whether a version is still needed once the instruction at `index` is done: by a later reader
  /// in the row, or after the plan's end. -1: before the first one
  bool needed_after(int stage, int version, int index) const;
  /// The (stage, version) pairs that are needed until the instruction at `index` is done.
  const std::vector<std::pair<int, int>>& ending_at(int index) const { return ending_.at(index); }

 private:
  using Readers = std::map<std::pair<int, int>, int>;  // (stage, version): the last cell

  const Readers& readers_in(Part part) const { return readers_[static_cast<int>(part)]; }
  int oldest_read(int stage) const;
  bool needed_behind(Part part, int stage, int version) const;
  bool needed_at_second_bar(int stage, int version) const;
  void end_at_bar(Part part, int cell);

  const Plan& plan_;
  int rank_;
  std::array<Readers, 3> readers_;                        // by part
  std::vector<std::vector<std::pair<int, int>>> ending_;  // by instruction
};

}  // namespace plangrad::parallel
