// Plan: a parallelisation strategy as plain data: what every rank of the world runs.
// Not here: writing a plan (schedules, lower), checking it (verify) and running it (engine).
// Chapter 06.
//
// The room parallel/plan defines what all other rooms work on, without tensors. Read it first:
// plan.h         a plan: a header and one row of instructions for each rank
// operations.h   the table of operations: what each needs, makes and costs, and how it is written
// plan_text.cpp  plans and their instructions as text, and back
// lifetimes.h    what follows from a row: which weights an instruction reads, when versions die
// endless.cpp    a plan whose middle repeats, at any length; timeline.h: when instructions ran
// codec_spec.h   how a header names a codec; fields.h: tables of what users can name
// The room includes nothing but autograd's errors and text; the linker supplies the list of codecs
// (codec_kinds). operations.h alone says what an operation means. A new operation is a row of its
// table, a function of the interpreter and of the verifier's replay, and a chapter that needs it.
#pragma once

#include <algorithm>
#include <utility>

#include "parallel/plan/codec_spec.h"
#include "parallel/plan/operations.h"

namespace plangrad::parallel {

using Row = std::vector<Instruction>;

/// The two bars of a row of an endless plan: its body is the cells from `first` to before `second`.
struct Bars {
  int first = 0, second = 0;
  friend bool operator==(const Bars&, const Bars&) = default;
};

/// A plan for the whole world: a header, and one row per rank.
/// Microbatches and versions are counted over the run: this plan makes versions first + 1 to
/// first + steps, from microbatches first * per_step on.
struct Plan {
  int stages = 1;     ///< stages with layers; `tied` adds one without
  int per_step = 1;   ///< microbatches whose gradients make one step, over all ranks
  int steps = 1;      ///< 0: an evaluation: forwards of microbatches [0, per_step), version `first`
  int first = 0;      ///< steps that the run has made before this plan
  int sharded = 0;    ///< ZeRO level: 1 shards optimizer state, 2 also gradients, 3 also weights
  bool clip = false;  ///< steps need the norm
  int stagger = 0, gap = 2;  ///< cyclic: a microbatch's turn comes when the one before has passed
                             ///< `gap` stages. stagger 0: no turns, 1: in the first step, 2: in all
  int in_flight = 0;  ///< 0: rows run in their order. Otherwise the plan is message-driven: between
                      ///< two steps a rank runs the forward or backward whose input has arrived,
                      ///< with at most this many forwards ahead of its backwards
  std::vector<int> keep = {1};  ///< per stage: how many newest versions outlive the plan; as many
                                ///< exist before it, if the run has made as many
  int drift = 0;  ///< 0: a backward reads the version that its forward read. Otherwise a rank has
                  ///< one version of each of its stages, which steps overwrite: every read is of
                  ///< the newest, and a backward's is at most this much newer than its forward's
  std::vector<int> home;                 ///< the rank that keeps each stage's state (cyclic ZeRO)
  std::vector<std::vector<int>> groups;  ///< groups of ranks, each ascending
  std::vector<int> tied;  ///< stages that share one tensor. The tensor is stage number `stages`: it
                          ///< has sums, versions and steps, but no forward. Every use reads the
                          ///< version that the first stage's forward of the microbatch names; with
                          ///< drift, the version that the use names for its own stage
  int period = 0;         ///< 0: the plan has one length. Otherwise it is endless: the cells
      ///< between its bars can run any number of times, also never; each time counts
      ///< versions on by `period`, and microbatches by period * per_step
  std::vector<Bars> bars;  ///< the bars of each rank's row, in an endless plan
  CodecSpec codec;         ///< encodes gradient sums between ranks
  CodecSpec channel;       ///< encodes activations and their gradients between ranks
  std::vector<Row> rows;

  int ranks() const { return static_cast<int>(rows.size()); }
  int stage_count() const { return stages + (tied.empty() ? 0 : 1); }
  bool is_endless() const { return period > 0; }
  /// Whether the pipeline stays full from update to update, so that draining it costs time.
  bool overlaps_updates() const { return drift > 0 || *std::ranges::max_element(keep) > 1; }
  bool uses_tied(int stage) const { return std::count(tied.begin(), tied.end(), stage) > 0; }
  int kept(int stage) const { return keep.size() == 1 ? keep[0] : keep.at(stage); }
  int first_micro() const { return steps == 0 ? 0 : first * per_step; }
  int last_micro() const { return first_micro() + per_step * (steps == 0 ? 1 : steps); }
  /// The index of a stage with layers and a microbatch, from 0 to passes() - 1.
  std::size_t pass(int stage, int micro) const {
    return static_cast<std::size_t>(stage) * (last_micro() - first_micro()) + micro - first_micro();
  }
  std::size_t passes() const { return pass(stages, first_micro()); }
  /// The version that a microbatch's gradient helps to make.
  int made_by(int micro) const { return micro / per_step + 1; }
  /// The microbatch that names a version's finished sum.
  int last_micro_of(int version) const { return version * per_step - 1; }
  /// Whether a sum up to this microbatch is finished.
  bool ends_step(int micro) const { return (micro + 1) % per_step == 0; }

  /// Calls each(key, value) for every entry of a plan's header, in the order of its text.
  static void for_each_entry(auto& plan, auto&& each) {
    each("stages", plan.stages);
    each("per_step", plan.per_step);
    each("steps", plan.steps);
    each("first", plan.first);
    each("sharded", plan.sharded);
    each("clip", plan.clip);
    each("stagger", plan.stagger);
    each("gap", plan.gap);
    each("keep", plan.keep);
    each("drift", plan.drift);
    each("in_flight", plan.in_flight);
    each("home", plan.home);
    each("groups", plan.groups);
    each("tied", plan.tied);
    each("period", plan.period);
    each("codec", plan.codec);
    each("channel", plan.channel);
  }

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Calls each(rank, cell, instruction) for every cell of a plan, row after row.
void for_each_cell(auto& plan, auto&& each) {
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (int cell = 0; cell < static_cast<int>(plan.rows[rank].size()); ++cell)
      each(rank, cell, plan.rows[rank][cell]);
}

/// A run has fewer microbatches, so they and their versions fit an int, also in unrolled plans.
inline constexpr std::int64_t most_microbatches = 1 << 28;
/// The most ranks, all of which a walk looks at each moment, and cells that a few seconds allow.
inline constexpr int most_ranks = 10'000, most_cells = 1 << 21;

/// A plan as text: a line of header, which leaves out most defaults, then one line per rank.
std::string print(const Plan& plan);

/// Inverse of print. Empty lines and what follows a # are skipped.
/// throws: Error with line and word, or if it has more than most_ranks rows, or most_cells cells or
///         messages of sums; no more of a stream is read than up to the line at fault
Plan parse(std::istream& in);
Plan parse(const std::string& text);

/// throws: Error if a codec of the header has nothing to encode, or can't encode the plan's values
void check_codecs(const Plan& plan);
/// Whether groups of ranks reduce gradient sums, so that the way of reduction matters.
bool sums_in_groups(const Plan& plan);

/// A cell and its neighbours, for error messages:
///   rank 1: ... 1F1v0 [1B0v0] 1F2v0 ...
std::string mark(const Plan& plan, int rank, int index);

// ---- endless plans ----

/// The parts of a row. The tail is as it runs after one body. A plan of one length is all tail.
enum class Part { head, body, tail };
Part part_of(const Plan& plan, int rank, int cell);
/// The cells of a part of a row, from `first` to before `second`.
std::pair<int, int> cells_of(const Plan& plan, int rank, Part part);

/// An instruction as it runs `repetitions` bodies later than it is written.
Instruction shifted(const Plan& plan, Instruction x, int repetitions);
/// A value that instruction names, `repetitions` bodies later.
Name shifted(const Plan& plan, Name name, int repetitions);

/// The most bodies with which an endless plan has at most `steps` steps, and cells that fit an int.
int bodies_for(const Plan& plan, int steps);

/// An endless plan from the run's beginning, moved `steps` later, where its head reads versions as
/// old as its body does: at the beginning there were none before version 0.
/// throws: Error if it does not begin with the run, or its head reads others than its body would
Plan later_by(Plan plan, int steps);

/// The plan of head, `bodies` bodies and tail: an ordinary one, of steps + (bodies - 1) * period
/// steps. throws: Error if the plan is not endless, or would have no steps
Plan unrolled(const Plan& plan, int bodies);

}  // namespace plangrad::parallel
