// Schedules: which rank computes what, in which order, on which weights. Each is a file in
// schedules/; what they share is here. Not here: messages and reductions, which lower() adds.
// Chapter 06.
//
// The room parallel/schedules has a file for each way to train: about 30 lines that read like the
// paper and write only computations, in loops or by sorting the times that a formula gives.
// schedule.h            what a schedule is asked for (Layout), and how it behaves (Schedule)
// building_blocks.cpp   orders, steps and recomputation that several schedules share
// schedule.cpp          the register, a list of them; evaluation.cpp: plans that only run forward
// A new schedule is one file and one line of the register: its name, the function that makes its
// plan, and what programs ask of it (how many ranks, whether it clips, which ZeRO levels). Tests
// of all schedules include it automatically. No schedule includes another, and no code compares
// their names.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/lowering/lower.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// The work of a rank in a cyclic schedule. one_device: everything. data: every stage of its own
/// microbatches. pipeline: one stage. model: one stage, for microbatches that are never on it at
/// the same time. zero: as in data, but weights travel.
/// source: Fournier and Oyallon 2024, table 1
enum class Setting { one_device, data, pipeline, model, zero };
/// Settings by the names that users type.
const std::map<std::string, Setting>& settings();
/// Whether microbatches wait for turns, so that Layout::gap has an effect.
inline bool has_turns(Setting setting) {
  return setting == Setting::data || setting == Setting::zero;
}

/// The choices from which a schedule makes its plan.
struct Layout {
  int stages = 1;                   ///< parts that the model is split into
  int width = 1;                    ///< replicas of the model
  int microbatches = 1;             ///< of each replica, in each step
  int steps = 1;                    ///< steps that the plan makes
  int first = 0;                    ///< steps that were made before the plan
  bool recompute = false;           ///< drop activations after the forward, compute them again
  bool clip = false;                ///< steps need the gradient's global norm
  bool tied = false;                ///< the first and the last stage share a tensor (embeddings)
  Setting setting = Setting::data;  ///< cyclic; as many microbatches as stages
  int gap = 2;        ///< cyclic, data and zero: stages between consecutive microbatches. 3 suits
                      ///< backwards that take twice as long as forwards
  int in_flight = 0;  ///< message-driven: microbatches that a rank may have between their forward
                      ///< and their backward; 0: as many as stages
  int zero = 0;       ///< ZeRO level: up to 3 with data parallelism, up to 1 with pipelines
  CodecSpec codec = {}, channel = {};  ///< encode gradient sums; activations and their gradients

  /// Microbatches of all replicas in one step.
  int per_step() const { return width * microbatches; }
  /// The microbatches of one replica in one step.
  std::vector<int> micros(int replica, int step) const;
  /// The microbatches of one replica in all steps of the plan.
  std::vector<int> micros(int replica) const;
};

/// The plan of a schedule: compute order, versions and messages.
/// throws: Error if there is no such schedule or the layout makes no sense
Plan make_plan(const std::string& schedule, const Layout& layout);

/// The endless plan (plan/endless.h) whose unrolled ones are the schedule's own, of any number of
/// updates; layout.steps has no effect. nullopt: the schedule's order depends on timing, or its
/// rows do not repeat within 12 updates (cyclic, setting model, of many stages)
std::optional<Plan> make_endless(const std::string& schedule, Layout layout);
/// Finds the endless plan whose unrolled ones plan_of(steps) makes; nullopt as above.
std::optional<Plan> make_endless(const std::function<Plan(int steps)>& plan_of);

/// A plan that only runs forward: `microbatches` in all, on weights of version `first`. The plan
/// `like` says which ranks hold which stages.
Plan make_evaluation(const Plan& like, int first, int microbatches);

/// A plan moved `steps` later in the run, or earlier if negative. Negative versions become 0, as in
/// delayed schedules; if weights travel, messages are then added anew.
Plan moved_by(Plan plan, int steps);

// ---- the schedules: each is a file, and a line of the register in schedule.cpp ----
/// Ranks of a pipeline: one for each stage of each replica.
int pipeline_ranks(const Layout& layout);

/// A schedule: its name, its plan, and how it behaves. Code that depends on its behaviour reads it
/// here, and never compares names.
struct Schedule {
  const char* name = "";                         ///< as users type it
  Plan (*make)(const Layout&) = nullptr;         ///< rows of computations only
  int (*ranks)(const Layout&) = pipeline_ranks;  ///< how many its plans have
  bool cyclic = false;  ///< has settings, and as many microbatches as stages instead of replicas
  bool updates_per_microbatch = false;  ///< a step is one microbatch of each replica
  bool has_order = true;  ///< false: ranks take what comes first, up to Layout::in_flight
  int highest_zero = 1;   ///< ZeRO level; a cyclic schedule's check() says what it has instead
  const char* why_no_clip = nullptr;  ///< why steps can't wait for a norm, and what to use; null:
                                      ///< they can
  SumPath (*sum_path)(const Layout&) = nullptr;  ///< null: SumPath::group
  void (*check)(const Layout&) = nullptr;        ///< throws Error for what only it rejects
  std::string (*note)(const Layout&) = nullptr;  ///< a cost to know before a run; empty: none
};

/// All schedules, sorted by name.
const std::vector<const Schedule*>& schedules();
/// throws: Error if there is no schedule of this name
const Schedule& find_schedule(const std::string& name);
/// throws: Error if the schedule can't have such a layout
void check_layout(const Schedule& schedule, const Layout& layout);

// ---- building blocks of schedules ----
/// A plan with a header and `ranks` empty rows; `keep` versions of each stage outlive it.
Plan empty_plan(const Layout& layout, int ranks, std::vector<int> keep);

/// The plan of a pipeline: append() adds to a rank's row what it computes for one stage of one
/// replica. Steps are placed by suitable_placement.
Plan pipeline_plan(const Layout& layout, std::vector<int> keep,
                   const std::function<void(Row& row, int replica, int stage)>& append);

/// Appends a pipeline stage's steady order to a row: `ahead` forwards, then backward and forward in
/// turn. version(micro) is what both read.
/// source: Narayanan et al. 2021 (PipeDream-2BW), figure 3
void append_1f1b(Row& row, int stage, const std::vector<int>& micros, int ahead,
                 const std::function<int(int micro)>& version);

/// The places of steps. eager: after the last gradient in the row. lazy: before the first forward
/// that reads the version, which leaves time for reductions and norms. all_at_once: before the
/// row's first such forward of any stage. The tied stage's steps are never eager.
enum class StepPlacement { eager, lazy, all_at_once };
void place_steps(Plan& plan, StepPlacement placement);

/// eager if steps wait for no other rank, otherwise lazy.
StepPlacement suitable_placement(const Layout& layout);

/// Drops the activations of each forward whose backward does not follow at once, and repeats the
/// forward before its backward.
void add_recomputation(Plan& plan);

}  // namespace paragrad::parallel
