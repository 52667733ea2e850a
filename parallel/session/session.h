// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with validations, checkpoints and reports between them. Rank 0 leads: what is to be done
// next is its order, which all ranks carry out together.
// Not here: flags, models and data, which a program brings, and methods of pruning (sparse/).
// Chapters 05 and 11.
//
// The room parallel/session is a run from its first update to its last:
// session_lead.cpp   rank 0: what is done when, and what is shown
// session_rank.h     every rank: carries out orders; plans.h: each plan is made and verified once
// state_files.h      weights, optimizer state and what codecs remember to a checkpoint and back
// run_report.h       what a run tells, and what it leaves
// session.h          the call that runs it all; Pruner: what is asked between plans
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"
#include "parallel/session/plans.h"

namespace paragrad::parallel {

/// The data of a run. Each rank has its own.
class RunData {
 public:
  virtual ~RunData() = default;
  virtual Batches& training() = 0;
  /// All validation data, or a few batches of it that are spread evenly, as microbatches 0, 1, ...
  virtual Batches& validation(bool all) = 0;
  /// How many these are, and how much each one's mean loss counts.
  virtual std::vector<double> validation_weights(bool all) const = 0;
};

/// What a session asks between plans, so that a run can be pruned on its way. Each rank has its
/// own. What one finds, all ranks find alike.
class Pruner {
 public:
  static constexpr int never = std::numeric_limits<int>::max();
  virtual ~Pruner() = default;

  /// throws: Error if such a model can't be pruned as it is asked to
  virtual void check(const ParameterList& whole) const = 0;

  /// The first number of updates, `steps` or more, after which maybe_prune() is to be called.
  virtual int next_pruning(int steps) const = 0;
  /// Prunes the weights, after so many updates, if the method finds that it is time. All ranks call
  /// it together, between plans. Returns what the run's log says of it.
  ///   like: a plan of the run
  virtual nlohmann::json maybe_prune(Engine& engine, const Plan& like, int steps) = 0;

  /// Gives the engine, which has no state yet, the form that the checkpoint's state has.
  virtual void resume(const Checkpoint& checkpoint, Engine& engine, const Plan& like) = 0;
  /// Writes what it needs to go on, beside the state of stages: files of the checkpoint.
  virtual std::vector<CheckpointFile> write(const std::filesystem::path& folder, Engine& engine,
                                            const Plan& plan, std::int64_t step) = 0;
  /// What is pruned by now; null if nothing is.
  virtual nlohmann::json summary() const = 0;
};

/// What a user says of a session: its folders, its length, and what it does on its way.
struct SessionScope {
  std::filesystem::path out = "out", resume;
  int steps = 2000, stop_after = 0;          ///< updates of the whole run; of this session, 0: any
  int save_every = 0, evaluate_every = 250;  ///< updates; 0: only at the end
  bool quiet = false;
};

struct SessionSettings : SessionScope {
  Engine::Settings engine;       ///< hierarchical sums without hosts go by the hosts' names
  std::shared_ptr<Plans> plans;  ///< all ranks of this process have the same
  int reported_steps = 4;        ///< of the plan that the report shows, unless a plan's are fixed
  std::function<std::unique_ptr<Pruner>()> pruner;  ///< null: nothing is pruned
  std::string unit = "tokens";                      ///< what rates count
  std::int64_t units_per_step = 0;
  double flops_per_unit = 0;
  nlohmann::json run;     ///< what checkpoints say of the run
  nlohmann::json config;  ///< what summary.json says of it
  std::string title;      ///< of report.html
  std::string about;      ///< a line for the user at the beginning
  std::function<bool()> interrupted = [] { return false; };  ///< asked on rank 0
};

/// throws: Error if hierarchical sums of gradients would be those of scatter-reduce-allgather in
///         every group, since its members are all on one host, or each on another
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

/// Steps of a plan that covers about a second, so that progress is seen and an interruption is
/// heard. A plan fills and drains: in a delayed schedule, whose updates overlap, one of slow steps
/// still has `fewest` of them, or the overlap would be gone. Others wait at each update anyway.
///   like: a plan of the schedule
int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest);

/// Runs the session. All ranks call it together, with equal settings. Returns whether the run has
/// come to its end; ranks other than 0 return true.
/// throws: Error if the run is impossible, before anything is written; or what a rank meets
bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings);

}  // namespace paragrad::parallel
