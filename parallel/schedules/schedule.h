// Schedules: which rank computes what, in which order, on which weights. Each is a file in
// schedules/; what they share is here. Not here: messages and reductions, which lower() adds.
// Chapter 06.
//
// The room parallel/schedules has a file for each way to train: about 30 lines that read like the
// paper and write only computations, in loops or by sorting the times that a formula gives.
// layout.h              what a schedule is asked for, and which rank holds which stages
// schedule.h            how a schedule behaves, and the flags that it brings
// building_blocks.cpp   orders and recomputation that several schedules share; flow.h: the work on
//                       one of a rank's two stages; steps.cpp: the places of updates, and plans
//                       that only run forward
// schedule.cpp          the register, a list of them; plan_spec.h: a plan as a user asks for it
// A new schedule is one file and one line of the register: its name, the function that makes its
// plan, and what programs ask of it (how many ranks, whether it clips, which ZeRO levels). Tests of
// all schedules include it automatically. No schedule includes another; no code compares names.
#pragma once

#include <functional>

#include "parallel/lowering/lower.h"
#include "parallel/schedules/layout.h"

namespace plangrad::parallel {

/// The plan of a schedule: compute order, versions and messages.
/// throws: Error if there is no such schedule or the layout makes no sense
Plan make_plan(const std::string& schedule, const Layout& layout);

/// The endless plan (plan/plan.h) whose unrolled ones are the schedule's own, of any number of
/// updates; layout.steps has no effect. nullopt: the schedule's order depends on timing, or its
/// rows do not repeat within 12 updates (cyclic, setting model, of many stages)
std::optional<Plan> make_endless(const std::string& schedule, Layout layout);
/// Finds the endless plan whose unrolled ones plan_of(steps) makes; nullopt: there is none.
std::optional<Plan> make_endless(const std::function<Plan(int steps)>& plan_of);

/// A plan that only runs forward: `microbatches` in all, on weights of version `first`. The plan
/// `like` says which ranks hold which stages.
Plan make_evaluation(const Plan& like, int first, int microbatches);

/// A plan moved `steps` later in the run, or earlier if negative. Negative versions become 0, as in
/// delayed schedules; if weights travel, messages are then added anew.
Plan later_plan(Plan plan, int steps);

/// Completes rows of computations to a plan: adds updates, unless there are some, and messages.
/// throws: Error if there are messages already, computations are missing, or they wait for each
///         other; PlanError if a cell makes no sense. It checks no other rule: verify() does
Plan plan_of_rows(Plan computations);

// ---- the schedules: each is a file, and a line of the register in schedule.cpp ----
struct PlanSpec;
template <class Object>
struct Field;
using SpecField = Field<PlanSpec>;  // plan_spec.h
extern const SpecField chunks_field, placement_field, in_flight_field;

/// Ranks of a pipeline: the depth of each replica.
inline int pipeline_ranks(const Layout& layout) { return layout.width * layout.depth(); }

/// A schedule: its name, its plan, and how it behaves. Code that depends on its behaviour reads it
/// here, and never compares names.
struct Schedule {
  const char* name = "";                         ///< the name that users type
  Plan (*make)(const Layout&) = nullptr;         ///< rows of computations only
  int (*ranks)(const Layout&) = pipeline_ranks;  ///< the number of ranks of its plans
  bool cyclic = false;  ///< has settings, and as many microbatches as stages instead of replicas
  bool updates_per_microbatch = false;  ///< a step is one microbatch of each replica
  bool has_order = true;  ///< false: ranks take what comes first, up to Layout::in_flight
  bool overlaps = false;  ///< an update begins before the one before it has ended, on other ranks
  bool drifts = false;    ///< backwards read newer weights than their forwards (Plan::drift)
  int chunks = 1;         ///< stages that a rank holds, if chunks_field is not given; 0: all
  Placement placement = Placement::straight;  ///< where stages lie, if placement_field is not given
  int highest_zero = 1;  ///< ZeRO level; a cyclic schedule's check() says what it has instead
  const char* why_no_clip = nullptr;  ///< why steps can't wait for a norm, and what to use; null:
                                      ///< they can
  std::vector<const SpecField*> fields = {};     ///< fields that only it or a few have
  SumPath (*sum_path)(const Layout&) = nullptr;  ///< null: SumPath::group
  void (*check)(const Layout&) = nullptr;        ///< throws Error for what only it rejects
  std::string (*note)(const Layout&) = nullptr;  ///< a cost to know before a run; empty: none

  /// Whether it has this field of its own.
  bool has(const SpecField& field) const;
};

/// All schedules, sorted by name.
const std::vector<const Schedule*>& schedules();
std::vector<std::string> schedule_names();
/// throws: Error if there is no schedule of this name
const Schedule& find_schedule(const std::string& name);
/// throws: Error if the schedule can't have such a layout
void check_layout(const Schedule& schedule, const Layout& layout);
/// The layout with the schedule's own choices where none were made.
Layout with_defaults(const Schedule& schedule, Layout layout);

// ---- building blocks of schedules ----
/// A plan with a header and `ranks` empty rows; `keep` versions of each stage outlive it.
Plan empty_plan(const Layout& layout, int ranks, std::vector<int> keep);

/// The plan of a pipeline: append() adds to the row of a replica's rank what the rank computes. If
/// ranks hold one stage each, a rank's number is its stage's. Steps are placed by place_steps.
Plan pipeline_plan(const Layout& layout, std::vector<int> keep,
                   const std::function<void(Row& row, int replica, int rank)>& append);

/// The plan of a pipeline that runs empty before every step: append() adds to the row of a rank
/// what it computes of a step, whose weights all of it reads, for its replica's microbatches.
using WorkOfStep =
    std::function<void(Row& row, int rank, int step, const std::vector<int>& micros)>;
Plan flushed_plan(const Layout& layout, const WorkOfStep& append);

/// Describes what clipping costs a schedule that otherwise begins updates without a bubble.
std::string note_on_norms(const Layout& layout);

/// One part of a backward: Value::input_part or Value::weight_part.
inline Instruction backward_part(Value part, int stage, int micro, int version) {
  Instruction x = backward(stage, micro, version);
  x.what = part;
  return x;
}

/// Appends two lists of computations to a row: `ahead` of the first, then one of each, in turn.
void append_in_turn(Row& row, const Row& forwards, const Row& backwards, int ahead);

/// Appends a pipeline stage's steady order to a row: `ahead` forwards, then backward and forward in
/// turn. version(micro) is what both read, unless backwards have a rule of their own.
/// source: Narayanan et al. 2021 (PipeDream-2BW), figure 3
void append_1f1b(Row& row, int stage, const std::vector<int>& micros, int ahead,
                 const std::function<int(int micro)>& version,
                 const std::function<int(int micro)>& backward_version = {});

/// The places of steps. eager: after the last gradient in the row. lazy: before the first reader of
/// the version, which leaves time for reductions and norms. all_at_once: before the row's first
/// such reader of any stage. The tied stage's steps are never eager.
enum class StepPlacement { eager, lazy, all_at_once };
void place_steps(Plan& plan, StepPlacement placement);
/// Places steps by what the rows need: eager if they wait for no other rank; all_at_once if they
/// are followed by gathers on ranks that hold several stages; otherwise lazy.
void place_steps(Plan& plan);

/// Drops the activations of each forward whose backward does not follow at once, and repeats the
/// forward before its backward.
void add_recomputation(Plan& plan);

}  // namespace plangrad::parallel
