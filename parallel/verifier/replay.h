// Replay: one rank's row, run strictly in order with names instead of tensors.
// What other ranks send is believed to be what its name says, for the replay of the sender's row
// checks just that. So rows are replayed one by one, and timing does not matter.
// Not here: whether messages meet (pairing) and the plan goes on to its end (hang). Chapter 06.
#pragma once

#include <unordered_map>
#include <vector>

#include "parallel/verifier/passages.h"
#include "parallel/verifier/sums.h"
#include "parallel/verifier/versions.h"

namespace paragrad::parallel {

/// Per cell of a row: the cells before it whose received values it needs.
using Waits = std::vector<std::vector<int>>;

class Replay {
 public:
  /// The references must live on.
  Replay(const Plan& plan, int rank, Passages& passages, const std::set<int>& held,
         const std::vector<int>& tied_versions);

  /// throws: PlanError
  void run();
  void check_end() const { versions_.check_end(); }
  void check_leaks() const;

  const Waits& waits() const { return waits_; }
  /// What this rank brings to the reduction or norm at a cell.
  const Sum& reduced(int index) const { return reduced_.at(index); }
  const std::vector<int>& counted(int index) const { return counted_.at(index); }

  int staleness() const { return staleness_; }
  int live_versions() const { return versions_.peak(); }
  int versions_in_use() const { return versions_.peak_in_use(); }
  int peak_microbatches() const { return peak_kept_; }
  int peak_inputs() const { return peak_passes_; }

 private:
  /// A microbatch on its way forward and back through a stage.
  struct Pass {
    int version;
    int forward_at;  // cell
    bool kept = true;
    bool input_part_done = false;
  };

  void execute(const Place& at);
  void forward(const Place& at);
  void backward(const Place& at);
  void send(const Place& at);
  void receive(const Place& at);
  void norm(const Place& at);
  void drop(const Place& at);
  void step(const Place& at);

  Pass& pass_back(const Place& at);
  void read_weights(const Place& at);
  void take(const Place& at, Value what, int stage);
  void make(const Place& at, Value what, int stage);
  void wait(const Place& at, int cell);
  void keep(int more);

  const Plan& plan_;
  int rank_;
  Passages& passages_;
  const std::vector<int>& tied_versions_;
  Versions versions_;
  Sums sums_;
  std::unordered_map<Key, int> here_;  // a, g, t: the cell that made or received them
  std::unordered_map<Key, Pass> passes_;
  std::set<int> norms_;
  std::unordered_map<int, Sum> reduced_;               // by cell
  std::unordered_map<int, std::vector<int>> counted_;  // by cell: stages
  Waits waits_;
  int kept_ = 0, peak_kept_ = 0, peak_passes_ = 0, staleness_ = 0;
};

}  // namespace paragrad::parallel
