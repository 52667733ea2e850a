// Replay: one rank's row, run strictly in order with names instead of tensors.
// A received value is taken to be what its name says, because the replay of the sender's row checks
// exactly that: rows are replayed one by one. Not here: timing, and hangs (hang.cpp). Chapter 06.
#pragma once

#include <unordered_map>

#include "parallel/verifier/weights_and_sums.h"

namespace plangrad::parallel {

/// Passages: the rank that runs each microbatch through each stage; -1: none yet. Every microbatch
/// passes every stage once in each direction, on any rank, so the replays of all rows share them.
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
  /// The references must outlive it.
  Replay(const Plan& plan, int rank, Passages& passages, const std::set<int>& held,
         const std::vector<int>& tied_versions);

  /// throws: PlanError
  void run();
  void check_leaks() const;

  /// What the rank has at its first or second bar, as lines: values, activations, sums, weights. At
  /// the second one all are named as one body earlier.
  const std::set<std::string>& state_at_bar(int bar) const { return at_bars_.at(bar); }

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
    int input_part_at = -1;  // the version that the input part of its backward read
  };

  void execute(const Place& at);
  void note_bars(int index);
  bool recomputes(const Place& at);
  void check_version(const Place& at, int read, const char* reader);
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
  std::unordered_map<Key, int> here_;  // values a, g, t, n: the cell that made or received each
  std::unordered_map<Key, Pass> passes_;
  std::vector<int> brought_by_;  // cells that brought what the present cell needs; -1: none
  Waits waits_;
  std::vector<std::set<std::string>> at_bars_;
  int kept_ = 0, peak_kept_ = 0, peak_passes_ = 0, staleness_ = 0, drift_ = 0;
};

// ---- all rows together ----

/// Checks what the replays of single rows leave open: reduced sums are whole, norms count every
/// stage, and groups gather shards from all ranks that have them.
/// throws: PlanError, rule sum, norm or shape
void check_meetings(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

/// Checks that each part of an endless plan can follow a body, however many have run: the body ends
/// with the state that it began with, counted on by the period.
/// throws: PlanError, rule repeat, or together if a group meets across bars
void check_repeat(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

/// The smallest number of messages that each channel must hold so that the plan completes. With 0,
/// a send waits for its recv. A rank has one lane here and two in the engine: it waits for more
/// here, so a plan that completes here completes there.
/// throws: PlanError, rule hang, if no number is large enough
int smallest_capacity(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

}  // namespace plangrad::parallel
