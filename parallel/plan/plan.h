// Plan: a way to train in parallel as plain data: for every rank of the world, what it runs.
// Not here: who writes a plan (schedules, lower), checks it (verify) or runs it (engine).
// Chapter 06.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/plan/codec_spec.h"

namespace paragrad::parallel {

/// The closed set of operations. The table below says what each needs and does.
enum class Op { forward, backward, send, recv, reduce, gather, drop, step };

/// What is sent, reduced, gathered or dropped; of a backward, which part it computes.
enum class Value {
  none,
  activation,           ///< a: output of a stage, for one microbatch
  activation_gradient,  ///< g: the loss's gradient with respect to that output
  gradient_sum,  ///< p: sum of a step's weight gradients, up to and including one microbatch's
  weights,       ///< w: of one version
  norm,          ///< n: of a step's whole gradient
  turn,          ///< t: empty; lets a forward begin
  input_part,    ///< of a backward: the gradient of the stage's input
  weight_part,   ///< of a backward: the rest, the gradients of the weights
};

/// One cell of a plan. Values are named by (stage, microbatch or version), never by buffer.
///
/// text      needs on its rank                      effect                                  lane
/// 2F5v1     1a5, unless stage 0; its turn, if one  keeps activations, makes 2a5. Again     compute
/// forward   is received; version 1 of stage 2      after a drop: recomputes, makes nothing
/// 2B5v1     activations kept here, at the same     makes 1g5, adds to the open sum of the  compute
/// backward  version; 2g5, unless the last stage    step, frees the activations. I5 does the
///                                                  first of these, W5 the rest
/// 2Sv2      version 1, the newest; the sum of      version 2; the sum ends                 compute
/// step      each microbatch of the step once; the
///           norm, where the plan clips
/// 2Da5      the value                              frees activations (the stage's input    compute
/// drop                                             stays), weights (2Dwv1) or a sum (2Dpv1)
/// 2a5>3     the value                              a, g, t and a sum that is not finished  message
/// send                                             or not stepped here move, others are
///                                                  copied. Blocks until a slot or the recv
/// 2a5<1     no such value, here or under way       posts; same name at both ends; first    message
/// recv                                             in, first out
/// 2Rv1@0    own open sum; all members stand here   all hold the sum, added in rank order;  message
/// reduce                                           it is finished
/// 2R5       own open sum, one arrived partial      (arrived + own) is 2p5                  message
/// fold
/// Rnv1@0    finished sums of all stages, each      the norm of step 1 is known             message
/// norm      counted once
/// 2Gwv1@0   every member has its shard             full weights                            message
/// gather
///
/// A message is issued once the computations before it in the row are done; it then waits in a
/// queue per peer and direction, or per group. A computation waits only for its inputs.
/// A version that has a successor dies after its last reader in the row.
struct Instruction {
  Op op = Op::forward;
  int stage = -1;  ///< of the model; -1 for the norm
  int micro = -1;  ///< microbatch, counted over the run
  int version =
      -1;         ///< of weights: read (forward, backward, gather) or made (step). A sum, and the
                  ///< norm, are named by the version that they will make
  int peer = -1;  ///< rank (send, recv) or group (reduce, gather; -1: fold)
  Value what = Value::none;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

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
  /// The version that a microbatch's gradient helps to make.
  int made_by(int micro) const { return micro / per_step + 1; }
  /// The microbatch that names a version's finished sum.
  int last_micro_of(int version) const { return version * per_step - 1; }

  friend bool operator==(const Plan&, const Plan&) = default;
};

inline bool is_compute(Op op) {
  return op == Op::forward || op == Op::backward || op == Op::step || op == Op::drop;
}

/// The text of an instruction: "2F5v1".
std::string print(const Instruction& instruction);
/// "activations", "reductions", ...: what a message carries, as legends and tables name it.
std::string message_kind(const Instruction& instruction);
/// The header's line, then one line a rank.
std::string print(const Plan& plan);

/// Inverse of print. Empty lines and what follows a # are skipped.
/// throws: Error, with line and word, if the text is no plan
Plan parse(const std::string& text);
Instruction parse_instruction(const std::string& word);

/// The neighbourhood of a cell, for messages:
///   rank 1: ... 1F1v0 [1B0v0] 1F2v0 ...
std::string mark(const Plan& plan, int rank, int index);

}  // namespace paragrad::parallel
