// Schedules: who computes what, in which order, on which weights. Each is a file in schedules/.
// Not here: messages and reductions, which lower() adds. What schedules share is here.
// Chapter 06.
//
// The room parallel/schedules has a file for each way to train: about 30 lines that read like the
// paper, computations only, as loops or as a formula for times that is sorted.
// schedule.h            what a schedule is asked for (Layout), and how it behaves (Schedule)
// building_blocks.cpp   orders, steps and recomputation that several schedules share
// schedule.cpp          the register, a list of them; evaluation.cpp: plans that only run forward
// A new schedule is one file and one line of the register: its name, the function that makes its
// plan, and what programs ask of it (how many ranks, whether it clips, which ZeRO levels). Tests
// of all schedules take it in by themselves. No schedule includes another, and nobody compares
// their names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/lowering/lower.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// What a rank of a cyclic schedule does: everything, alone; every stage of its microbatches; one
/// stage; one stage, shared by microbatches that never meet on it; as data, but the weights travel.
/// source: Fournier and Oyallon 2024, table 1
enum class Setting { one_device, data, pipeline, model, zero };
/// As users type them.
const std::map<std::string, Setting>& settings();
/// Whether microbatches wait for turns, which Layout::gap is about.
inline bool has_turns(Setting setting) {
  return setting == Setting::data || setting == Setting::zero;
}

/// What a schedule is asked for.
struct Layout {
  int stages = 1;          ///< that the model is cut into
  int width = 1;           ///< replicas of the model
  int microbatches = 1;    ///< of each replica, in each step
  int steps = 1;           ///< of the plan
  int first = 0;           ///< steps done before
  bool recompute = false;  ///< drop activations after the forward, compute them again
  bool clip = false;       ///< steps need the gradient's global norm
  bool tied = false;       ///< the first and the last stage share a tensor (embeddings)
  Setting setting =
      Setting::data;  ///< of cyclic schedules; these have as many microbatches as stages
  int gap = 2;        ///< cyclic, data and zero: stages that a microbatch is ahead of the next. 3
                      ///< suits backwards that take twice as long as forwards
  int in_flight = 0;  ///< message-driven: microbatches that a rank may have between their forward
                      ///< and their backward; 0: as many as stages
  int zero = 0;       ///< ZeRO stage, of data parallelism; 1 of pipelines, too
  CodecSpec codec = {}, channel = {};  ///< of sums of gradients; of activations and their gradients

  /// Microbatches of all replicas in one step.
  int per_step() const { return width * microbatches; }
  /// The microbatches of one replica in one step.
  std::vector<int> micros(int replica, int step) const;
  /// The same over all steps of the plan.
  std::vector<int> micros(int replica) const;
};

/// The plan of a schedule: compute order, versions and messages.
/// throws: Error if there is no such schedule or the layout makes no sense
Plan make_plan(const std::string& schedule, const Layout& layout);

/// Forwards only, of so many microbatches in all, on weights `first`. The plan `like` says which
/// ranks hold which stages.
Plan make_evaluation(const Plan& like, int first, int microbatches);

/// The same plan so many steps later in the run, or earlier. Versions before the first are the
/// first, as delayed schedules have it; where weights travel, its messages are then found anew.
Plan moved_by(Plan plan, int steps);

// ---- the schedules: each is a file, and a line of the register in schedule.cpp ----
/// Ranks of a pipeline: one for each stage of each replica.
int pipeline_ranks(const Layout& layout);

/// A schedule: its name, its plan, and how it behaves. Whoever wants to know the latter asks here,
/// not for a name.
struct Schedule {
  const char* name = "";                         ///< as users type it
  Plan (*make)(const Layout&) = nullptr;         ///< rows of computations only
  int (*ranks)(const Layout&) = pipeline_ranks;  ///< of its plans
  bool cyclic = false;  ///< has settings, and as many microbatches as stages instead of replicas
  bool updates_per_microbatch = false;  ///< a step is one microbatch of each replica
  bool has_order = true;  ///< false: ranks take what comes first, up to Layout::in_flight
  int highest_zero = 1;   ///< ZeRO level; a cyclic schedule's check() says what it has instead
  const char* why_no_clip = nullptr;  ///< why steps can't wait for a norm, and what to use; null:
                                      ///< they can
  SumPath (*sum_path)(const Layout&) = nullptr;  ///< null: SumPath::group
  void (*check)(const Layout&) = nullptr;        ///< throws what only this schedule refuses
};

/// Sorted by name.
const std::vector<const Schedule*>& schedules();
/// throws: Error if there is no schedule of this name
const Schedule& find_schedule(const std::string& name);
/// throws: Error if the schedule can't have such a layout
void check_layout(const Schedule& schedule, const Layout& layout);

// ---- what they are made of ----
/// A plan with a header and `ranks` empty rows; `keep` versions of each stage outlive it.
Plan empty_plan(const Layout& layout, int ranks, std::vector<int> keep);

/// The plan of a pipeline: append() adds to a rank's row what it computes for one stage of one
/// replica. Steps come where they suit.
Plan pipeline_plan(const Layout& layout, std::vector<int> keep,
                   const std::function<void(Row& row, int replica, int stage)>& append);

/// Appends a pipeline stage's steady order to a row: `ahead` forwards, then backward and forward in
/// turn. version(micro) is what both read.
/// source: Narayanan et al. 2021 (PipeDream-2BW), figure 3
void append_1f1b(Row& row, int stage, const std::vector<int>& micros, int ahead,
                 const std::function<int(int micro)>& version);

/// Adds the steps. Eager: after the last gradient in the row. Lazy: before the first forward that
/// reads the version, which leaves time for reductions and norms. Together: before the row's first
/// such forward of any stage. The tied stage's are never eager.
enum class StepPlacement { eager, lazy, together };
void place_steps(Plan& plan, StepPlacement placement);

/// Eager where a step waits for nobody.
StepPlacement suitable_placement(const Layout& layout);

/// Drops the activations of each forward that is not followed by its backward, and
/// repeats it there.
void add_recomputation(Plan& plan);

}  // namespace paragrad::parallel
