// RunResult: what a rank finds out while it runs its row, and what all ranks did together.
// Course: how long the row runs. Not here: the row (row_run.h). Chapters 05 and 07.
#pragma once

#include <tuple>

#include "parallel/codecs/message_codec.h"
#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

/// A rank's results of one plan.
struct RunResult {
  std::chrono::steady_clock::time_point begun =
      std::chrono::steady_clock::now();  ///< when all ranks had reached the plan
  std::map<int, double> losses;  ///< loss of each microbatch, in nats, if its last stage is here
  std::map<int, double> accuracies;            ///< accuracy of each microbatch, if counted
  std::map<int, std::vector<double>> squares;  ///< by version, if the plan has no norms: the sum of
                                               ///< squares of each gradient sum that this rank
                                               ///< counts, by parameter of Training::whole
  int last_step = 0;                           ///< updates that the run has made by now
  std::map<int, double> norms;    ///< norm of each mean gradient, if the plan has norms
  std::map<int, double> stepped;  ///< seconds from the plan's begin to each version's update
  std::map<std::string, std::int64_t> bytes_sent;  ///< bytes by message_kind(): "activations", ...
  double compute = 0, update = 0;  ///< seconds in forwards and backwards, and in the optimizer
  std::int64_t peak = 0;           ///< bytes: the most that this rank's device has held so far
  bool interrupted = false;        ///< whether this rank, not rank 0, was asked to end the run
  int late = 0;                    ///< computations that Settings::prolong found late
  std::vector<int> order;          ///< the cells as a message-driven row ran them; else empty
  BitOptions bit_options;          ///< errors by bits of the gradients that this rank has measured
  std::vector<Record> records;     ///< the records of this rank's cells

  /// Seconds from the plan's begin to `time`.
  double seconds(std::chrono::steady_clock::time_point time) const {
    return std::chrono::duration<double>(time - begun).count();
  }
  /// The members that other ranks can use: all but the clock.
  static auto fields(auto& x) {
    return std::tie(x.losses, x.accuracies, x.squares, x.last_step, x.norms, x.stepped,
                    x.bytes_sent, x.compute, x.update, x.peak, x.interrupted, x.late, x.order,
                    x.bit_options, x.records);
  }
};

/// How long a plan runs, and what is kept of it.
struct Course {
  int bodies = 1;        ///< how often the body of an endless plan runs
  bool records = true;   ///< whether each cell leaves a record
  int report_every = 0;  ///< bodies from one report to rank 0 to the next; 0: none before the end
  /// Called on rank 0 with the results of all ranks since the last call: those of updates up to
  /// last_step, which each rank has its own of. Returns whether to go on; if not, all ranks leave
  /// the body a little later, together.
  std::function<bool(const std::vector<RunResult>&)> heard = nullptr;
  std::function<bool()> interrupted = [] { return false; };  ///< asked on the other ranks
  RunResult* left = nullptr;  ///< gets what this rank has found out if the plan fails
};

/// The result of all ranks: sums, maxima or unions of theirs. The order of cells and the options of
/// bits are left out: each rank has its own.
RunResult merged(const std::vector<RunResult>& ranks);

/// The mean loss of an update's microbatches, and the norm of its mean gradient.
/// throws: std::out_of_range if no rank has told of them
double loss_of(const RunResult& world, int version, int per_step);
double gradient_norm_of(const RunResult& world, int version, int per_step, bool clips);

}  // namespace plangrad::parallel
