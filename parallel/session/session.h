// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with checkpoints between them. Rank 0 leads: it orders what is done next, and all ranks
// carry it out together. What else a run does, its observers do (observer.h).
// Not here: flags, models and data, which a program brings; the observers (parallel/observers/).
// Chapters 05 and 11.
//
// The room parallel/session is a run from its first update to its last:
// session_lead.h    rank 0: decides what is done when
// session_rank.h    every rank: carries out orders
// observer.h        what a run does beside: it logs, validates, prunes, reports
// plans.h           each plan is made and verified once; the updates after which plans have to end
// saving.h          rank 0 saves while the run goes on, and each rank writes its files
// state_files.h     weights, optimizer state and what codecs remember to a checkpoint and back
// agreement.h       ranks compare what they run, and replicas their weights; one run writes to a
//                   folder, which all ranks see
// session.h         run_session(), which runs it all
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"
#include "parallel/session/observer.h"
#include "parallel/session/plans.h"

namespace plangrad::parallel {

/// The data of a run. Each rank has its own.
class RunData {
 public:
  virtual ~RunData() = default;
  virtual Batches& training() = 0;
  /// All validation data, or a few batches of it that are spread evenly, as microbatches 0, 1, ...
  virtual Batches& validation(bool all) = 0;
  /// One weight for each of these microbatches: how much its mean loss counts.
  virtual std::vector<double> validation_weights(bool all) const = 0;
};

/// The user's settings of a session: its folders, its length, and when it saves.
struct SessionScope {
  std::filesystem::path out = "out", resume;
  std::string manifest = nn::manifest_name;  ///< of the checkpoint in `resume`
  int steps = 2000, stop_after = 0;          ///< updates of the whole run; of this session, 0: any
  int save_every = 0;                        ///< updates; 0: only at the end
  double save_minutes = 10;                  ///< saves at the next chance after so long; 0: never
  int keep = 2;                              ///< checkpoints that stay in the folder

  /// The manifest of the checkpoint that the run continues from; empty: it begins anew.
  std::filesystem::path resumed_manifest() const {
    return resume.empty() ? resume : resume / "checkpoint" / manifest;
  }
  /// The checkpoint that the run continues from.
  Checkpoint resumed() const { return Checkpoint(resume / "checkpoint", manifest); }
};

struct SessionSettings : SessionScope {
  Engine::Settings engine;       ///< hierarchical sums without hosts take the hosts' names
  std::shared_ptr<Plans> plans;  ///< shared by all ranks of this process
  int reported_steps = 4;        ///< updates of a plan that is recorded, unless plans fix them
  nlohmann::json run;            ///< the description of the run in checkpoints
  /// Makes a rank's observers.
  std::function<Observers()> observers = [] { return Observers(); };
  std::function<bool()> interrupted = [] { return false; };       ///< asked on rank 0
  std::function<bool()> interrupted_here = [] { return false; };  ///< on the others, which tell it
};

/// throws: Error if hierarchical sums of gradients would equal scatter-reduce-allgather in every
///         group, since its members are all on one host, or each on a host of its own
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

/// The updates of a plan that takes about a second, so that progress shows and an interruption is
/// noticed: for schedules without an endless plan (Plans::endless). A plan fills and drains: in a
/// schedule whose updates overlap it has at least `fewest` updates, or the overlap would be lost.
/// Other schedules wait at each update anyway.
int steps_in_a_second(double seconds_per_step, bool overlaps_updates, int fewest);

/// Runs the session. All ranks call it together, with equal settings. Returns whether the run is
/// complete; ranks other than 0 return true.
/// throws: Error if the run is impossible, before anything is written; or if a rank fails, after
///         its observers have heard of it
bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings);

}  // namespace plangrad::parallel
