// Replay: one rank's row, run strictly in order with names instead of tensors.
// What other ranks send is believed to be what its name says, for the replay of the sender's row
// checks just that. So rows are replayed one by one, and timing does not matter. Chapter 06.
#pragma once

#include <unordered_map>
#include <vector>

#include "parallel/verifier/sums.h"
#include "parallel/verifier/versions.h"

namespace paragrad::parallel {

/// Passages: which rank runs which microbatch through which stage; -1: none yet. Over all ranks,
/// every microbatch passes every stage once in each direction: all that replays of rows share.
class Passages {
 public:
  explicit Passages(const Plan& plan)
      : plan_(plan), forward_(plan.passes(), -1), backward_(forward_) {}

  int& forward(int stage, int micro) { return forward_[plan_.pass(stage, micro)]; }
  int& backward(int stage, int micro) { return backward_[plan_.pass(stage, micro)]; }

  /// throws: PlanError, rule end, if a microbatch has not passed a stage; forward only, if the plan
  ///         evaluates
  void check_end() const;

 private:
  const Plan& plan_;
  std::vector<int> forward_, backward_;
};

/// Per cell of a row: the cells before it whose received values it needs.
using Waits = std::vector<std::vector<int>>;

class Replay {
 public:
  /// The references must live on.
  Replay(const Plan& plan, int rank, Passages& passages, const std::set<int>& held,
         const std::vector<int>& tied_versions);

  /// throws: PlanError
  void run();
  void check_leaks() const;

  const Versions& versions() const { return versions_; }
  const Sums& sums() const { return sums_; }
  const Waits& waits() const { return waits_; }
  void add_to(Facts& facts) const;

 private:
  /// A microbatch on its way forward and back through a stage.
  struct Pass {
    int version;
    int forward_at;  // cell
    bool kept = true;
    bool input_part_done = false;
  };

  void execute(const Place& at);
  bool recomputes(const Place& at);
  void go_back(const Place& at);
  void take(const Place& at, const Name& name);
  void free_stash(const Place& at, const Name& name);
  void make(const Place& at, const Name& name);
  void keep(int more);

  const Plan& plan_;
  int rank_;
  Passages& passages_;
  const std::vector<int>& tied_versions_;
  Versions versions_;
  Sums sums_;
  std::unordered_map<Key, int> here_;  // a, g, t, n: the cell that made or received them
  std::unordered_map<Key, Pass> passes_;
  std::vector<int> brought_by_;  // cells that brought what the present cell needs; -1: none
  Waits waits_;
  int kept_ = 0, peak_kept_ = 0, peak_passes_ = 0, staleness_ = 0;
};

// ---- all rows together ----

/// Members of a group bring together what their replays leave open: reduced sums are whole, norms
/// count every stage, and shards lie in the groups that are asked for them.
/// throws: PlanError, rule sum, norm or shape
void check_meetings(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

/// The smallest number of messages that each channel must hold, so that the plan gets to its end.
/// With 0, a send waits for its recv. A rank has one lane here, where the engine has two: it waits
/// for more than those would, so a plan that gets to its end here does so there.
/// throws: PlanError, rule hang, if no number is large enough
int smallest_capacity(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

}  // namespace paragrad::parallel
