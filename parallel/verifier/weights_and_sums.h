// Versions and Sums: the weights and the gradient sums that one rank has, by name, while the
// verifier replays its row. Not here: their numbers (engine/weight_store.h).
// Chapters 05 (sums) and 07 (versions).
#pragma once

#include <ranges>

#include "parallel/plan/lifetimes.h"
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {

class Versions {
 public:
  /// The references must outlive it.
  Versions(const Plan& plan, int rank, const std::set<int>& held,
           const std::vector<int>& tied_versions);

  /// Checks what a cell does with weights, and remembers it. Adds the cells of the row that brought
  /// what it reads to `brought_by`; -1 means that it was here from the start.
  ///   needed: the values that the table of operations says x needs
  void run(const Place& at, const std::vector<Name>& needed, std::vector<int>& brought_by);

  /// Frees the superseded versions whose last reader in the row is this cell.
  void retire(const Place& at);

  /// Checks that the rank ends with the versions of its stages that the plan keeps.
  void check_end() const;
  void check_leaks() const;  ///< checks that no copy is left
  /// Adds each version that is here, as a line, `back` bodies earlier.
  void add_state(int back, std::set<std::string>& lines) const;
  /// Whether a stage that this rank keeps has still to make a version.
  bool lacks(int version) const;

  int peak() const { return peak_; }  ///< most versions of one stage alive at once
  /// Most versions of one stage in use at once: from the making, or first reader, to the last one.
  int peak_in_use() const { return peak_in_use_; }

 private:
  struct Held {
    bool own;             ///< it, or its shard, stays until it is superseded and no longer read
    bool whole;           ///< all of it is here, so that the rank can compute with it
    bool copy = false;    ///< received or gathered: to be dropped
    int brought_by = -1;  ///< the cell that received or gathered it
    bool begun = false;   ///< made in the row, or read
  };

  void read(const Place& at, int stage, int version, std::vector<int>& brought_by);
  void receive(const Place& at);
  void gather(const Place& at);
  void step(const Place& at);
  void drop(const Place& at, std::vector<int>& brought_by);

  /// The versions of a stage, in their order: ((stage, version), Held).
  auto of(int stage) const {
    return std::ranges::subrange(held_.lower_bound({stage, 0}), held_.lower_bound({stage + 1, 0}));
  }
  Held& find_or_refuse(const Place& at, int stage, int version);
  int newest(int stage) const;
  void retire(int stage, int version);
  std::vector<int> versions_of(int stage) const;
  void count(int stage);

  const Plan& plan_;
  int rank_;
  const std::set<int>& held_stages_;
  const Lifetimes lifetimes_;
  std::map<std::pair<int, int>, Held> held_;  // by (stage, version)
  int peak_ = 0, peak_in_use_ = 0;
};

/// A rank's part of the sum that makes one version of one stage. Every gradient is computed once
/// and moves with its sum: no two sums hold the same one, so counting shows whether all are there.
struct Sum {
  struct Arrived {
    int micro = -1;  ///< the sum holds all microbatches of the step up to this one; -1: no sum
    int by = -1;     ///< the cell that received it
    friend bool operator==(const Arrived&, const Arrived&) = default;
  };
  std::vector<std::pair<int, int>> own;  ///< (stage, microbatch) that this row's backwards added
  int folded = -1;        ///< folded in as well: all microbatches of the step up to this one
  bool finished = false;  ///< reduced: at least this rank's shard is here
  bool shard_only = false;
  Arrived partial, whole;  ///< received sums, beside `own`: one to fold, and a finished one

  friend bool operator==(const Sum&, const Sum&) = default;
};

class Sums {
 public:
  Sums(const Plan& plan, int rank);

  /// Checks what a cell does with sums, and remembers it. Adds the cells of the row that received
  /// what it takes to `brought_by`; -1 means that this rank has made it.
  void run(const Place& at, std::vector<int>& brought_by);
  void add(const Place& at, int stage);  ///< adds the gradient that a backward computes

  /// The sum that this rank brings to the reduction at a cell of its row.
  const Sum& brought(int index) const { return brought_.at(index); }
  /// The stages whose finished sum this rank counts in the norm at a cell: those that it finished
  /// itself or, in a plan with homes, those that it is home to.
  const std::vector<int>& counted(int index) const { return counted_.at(index); }

  void check_leaks() const;
  /// Adds each sum that is here, as a line that says what it holds, `back` bodies earlier.
  void add_state(int back, std::set<std::string>& lines) const;

 private:
  void receive(const Place& at);
  int send(const Place& at);
  int fold(const Place& at);
  int step(const Place& at);
  void reduce(const Place& at);
  void drop(const Place& at);
  void count(const Place& at, std::vector<int>& brought_by);

  Sum& named(const Instruction& x) { return sums_[{x.stage, plan_.made_by(x.micro)}]; }
  bool holds(const Sum& sum, int stage, int micro) const;
  Sum::Arrived& arrived(Sum& sum, int micro) const {
    return plan_.ends_step(micro) ? sum.whole : sum.partial;
  }
  static void forget_own(Sum& sum) {
    sum = {.own = {}, .partial = sum.partial, .whole = sum.whole};
  }
  int take(int stage, int version, bool own, Sum::Arrived& arrived);

  const Plan& plan_;
  int rank_;
  std::set<int> stepped_;  // stages that this row steps
  std::map<std::pair<int, int>, Sum> sums_;
  std::map<int, Sum> brought_;               // by cell
  std::map<int, std::vector<int>> counted_;  // by cell
};

/// The gradients that all `sums` together lack to make a version of a stage: "[(2, 4), (2, 5)]".
std::string lacking(const Plan& plan, const std::vector<Sum>& sums, int stage, int version);

}  // namespace plangrad::parallel
