// Plan: a way to train in parallel as plain data: for every rank of the world, what it runs.
// Not here: who writes a plan (schedules, lower), checks it (verify) or runs it (engine).
// Chapter 06.
//
// The room parallel/plan holds what all other rooms speak of, and no tensor. Read it first:
// plan.h         a plan: a header and one row of instructions for each rank
// operations.h   the table of operations: what each needs, makes and costs, and how it is written
// plan_file.cpp  a plan as text, and back; operation_text.cpp: an instruction
// lifetimes.h    what follows from a row: which weights an instruction reads, when versions die
// codec_spec.h   how a header names a codec
// The room includes nothing but autograd's errors and text; the list of codecs is handed in by the
// linker (codec_kinds). Whoever asks what an operation means
// asks operations.h; another operation is a row of its table, a function of the interpreter, the
// verifier's replay, and a chapter that can't be written without it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/plan/codec_spec.h"
#include "parallel/plan/operations.h"

namespace paragrad::parallel {

using Row = std::vector<Instruction>;

/// The whole world: a header, and one row a rank.
/// Microbatches and versions count over the run: this plan makes versions first + 1 to
/// first + steps, from microbatches first * per_step on.
struct Plan {
  int stages = 1;     ///< with layers; `tied` adds one without
  int per_step = 1;   ///< microbatches whose gradients make one step, over all ranks
  int steps = 1;      ///< 0: an evaluation: forwards of microbatches [0, per_step), version `first`
  int first = 0;      ///< steps done before
  int sharded = 0;    ///< ZeRO stage: 1 optimizer state, 2 gradients, 3 weights
  bool clip = false;  ///< steps need the norm
  int stagger = 0, gap = 2;  ///< of turns (cyclic data parallelism)
  int in_flight = 0;  ///< 0: rows are run in their order. Else the plan is message-driven: between
                      ///< two steps a rank runs the forward or backward whose input has come, the
                      ///< first stage at most so many forwards ahead of its backwards
  std::vector<int> keep = {1};  ///< per stage: newest versions that live on after the plan; there
                                ///< are as many before it, as far as so many have been made
  std::vector<int> home;        ///< per stage: the rank that keeps its state (cyclic ZeRO)
  std::vector<std::vector<int>> groups;  ///< of ranks, ascending
  std::vector<int> tied;  ///< stages that use one tensor together. It is stage number `stages`: it
                          ///< has sums, versions and steps, but no forward. Every use reads the
                          ///< version that the first stage's forward of the microbatch names
  CodecSpec codec;        ///< of gradient sums on their way between ranks
  CodecSpec channel;      ///< of activations and their gradients
  std::vector<Row> rows;

  int ranks() const { return static_cast<int>(rows.size()); }
  int stage_count() const { return stages + (tied.empty() ? 0 : 1); }
  bool uses_tied(int stage) const { return std::count(tied.begin(), tied.end(), stage) > 0; }
  int kept(int stage) const { return keep.size() == 1 ? keep[0] : keep.at(stage); }
  int first_micro() const { return steps == 0 ? 0 : first * per_step; }
  int last_micro() const { return first_micro() + per_step * (steps == 0 ? 1 : steps); }
  /// A number for each stage with layers and microbatch, from 0 on; passes() of them.
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

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// The header's line, which has what differs from the defaults, then one line a rank.
std::string print(const Plan& plan);

/// Inverse of print. Empty lines and what follows a # are skipped.
/// throws: Error, with line and word, if the text is no plan
Plan parse(const std::string& text);

/// throws: Error if a codec of the plan's header has nothing to encode, or can't encode what there
///         is
void check_codecs(const Plan& plan);
/// Whether groups of ranks add up gradients, so that it matters how.
bool sums_in_groups(const Plan& plan);

/// The neighbourhood of a cell, for messages:
///   rank 1: ... 1F1v0 [1B0v0] 1F2v0 ...
std::string mark(const Plan& plan, int rank, int index);

}  // namespace paragrad::parallel
