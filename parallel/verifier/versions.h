// Versions: the weights that one rank has, by name, while the verifier replays its row.
// Not here: the weights themselves (weight_store), gradient sums (sums).
// Chapter 07.
#pragma once

#include <map>
#include <ranges>
#include <set>
#include <vector>

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

}  // namespace plangrad::parallel
