// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with validations, checkpoints and reports between them. Rank 0 leads: it orders what is
// done next, and all ranks carry it out together.
// Not here: flags, models and data, which a program brings, and methods of pruning (sparse/).
// Chapters 05 and 11.
//
// The room parallel/session is a run from its first update to its last:
// observer.h         what a run does beside: validation.h, silent_errors.h; sparse/prune_run.h
// session_lead.cpp   rank 0: decides what is done when, and shows progress; borders.h: where plans
//                    have to end
// session_rank.h     every rank: carries out orders; plans.h: each plan is made and verified once
// state_files.h      weights, optimizer state and what codecs remember to a checkpoint and back
// silent_errors.h    ranks compute the same, and compare it bit for bit
// agreement.h        ranks compare what they run, and replicas their weights; folder_claim.h: one
//                    run writes to a folder, which all ranks see
// run_log.h          the log of a run: progress; metric_files.h, event_file.h: files of metrics
// session_save.cpp   rank 0 saves while the run goes on; state_writer.h: a rank's files
// rescue.h           saves the last update when a session fails
// run_report.h       the report at its end; pretended_report.h: a part of it;
//                    machine.h: shared cores; profile_report.h: kernels' times
// session.h          run_session(), which runs it all
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"
#include "parallel/session/observer.h"
#include "parallel/session/plans.h"

namespace plangrad::parallel {

struct Pretended;  // simulation/pretended.h
class Rescue;      // rescue.h

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

/// The user's settings of a session: its folders, its length, when it saves and evaluates.
struct SessionScope {
  std::filesystem::path out = "out", resume;
  std::string manifest = nn::manifest_name;  ///< of the checkpoint in `resume`
  int steps = 2000, stop_after = 0;          ///< updates of the whole run; of this session, 0: any
  int save_every = 0;                        ///< updates; 0: only at the end
  double save_minutes = 10;                  ///< saves at the next chance after so long; 0: never
  int keep = 2;                              ///< checkpoints that stay in the folder
  bool quiet = false;
  bool profile = false;  ///< reports what kernels took; devices are then of profiled_device()

  /// The checkpoint that the run continues from.
  Checkpoint resumed() const { return Checkpoint(resume / "checkpoint", manifest); }
};

/// Draws a run's pages from what the session knows; null: that page is not written.
struct RunPages {
  /// report.html from a title and data as JSON, which RunReport::page() describes.
  std::string (*report)(const std::string& title, const std::string& data) = nullptr;
  /// plan.html: the recorded updates with their measured costs, as JSON: "plan", "title", "costs".
  std::string (*plan)(const std::string& request) = nullptr;
};

struct SessionSettings : SessionScope {
  Engine::Settings engine;       ///< hierarchical sums without hosts take the hosts' names
  std::shared_ptr<Plans> plans;  ///< shared by all ranks of this process
  std::shared_ptr<const Pretended> pretended;  ///< what reports tell of; null: nothing.
                                               ///< `engine` and transports act on it
  std::shared_ptr<Rescue> rescue;  ///< gets what ranks hold when the session fails; null: nobody
  int reported_steps = 4;          ///< updates of the plan in the report, unless plans fix them
  double report_every = 30;  ///< seconds from one report.html to the next while the run goes on
  /// Makes a rank's observers, and those by which a program checks borders before.
  std::function<Observers()> observers = [] { return Observers(); };
  std::string unit = "tokens";  ///< the unit of rates
  std::int64_t units_per_step = 0;
  double flops_per_unit = 0;
  nlohmann::json run;     ///< the description of the run in checkpoints
  nlohmann::json config;  ///< the description of the run in summary.json
  std::string title;      ///< of report.html
  RunPages pages;
  std::string about;               ///< a line for the user at the beginning
  std::vector<std::string> news;   ///< lines for the user and the metrics, of what led here
  bool one_update_a_plan = false;  ///< so that rank 0 has heard of all of them if a rank is lost
  bool is_segment = false;         ///< another session follows where this one stops
  std::function<bool()> interrupted = [] { return false; };       ///< asked on rank 0
  std::function<bool()> interrupted_here = [] { return false; };  ///< on the others, which tell it
  std::function<void(const std::filesystem::path& out)> saved = [](auto&) {};  ///< called on rank 0
                                                                               ///< after each save
};

/// throws: Error if hierarchical sums of gradients would equal scatter-reduce-allgather in every
///         group, since its members are all on one host, or each on a host of its own
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

/// The updates of a plan that takes about a second, so that progress shows and an interruption is
/// noticed: for schedules without an endless plan (Plans::endless). A plan fills and drains: in a
/// schedule whose updates overlap it has at least `fewest` updates, or the overlap would be lost.
/// Other schedules wait at each update anyway.
///   like: a plan of the schedule
int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest);

/// Runs the session. All ranks call it together, with equal settings. Returns whether the run is
/// complete; ranks other than 0 return true.
/// throws: Error if the run is impossible, before anything is written; or if a rank fails, which
///         then leaves what it holds to settings.rescue
bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings);

}  // namespace plangrad::parallel
