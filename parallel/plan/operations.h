// Operations: the closed set of what a plan's cells do, and what each of them means on its rank:
// what it needs and makes, its lane, its text, its cost. Lowering, verifier, simulator, drawings
// and engine read it here.
// Not here: the work itself (engine/interpreter.cpp), and the rules of whole plans (verifier/).
// Chapter 06.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plangrad::parallel {

struct Plan;

/// The operations of a plan's cells. The first four are computations, the others messages.
enum class Op { forward, backward, step, drop, send, recv, reduce, fold, norm, gather };

/// The value that an instruction sends, reduces, gathers or drops, or the part that a backward
/// computes. The last two have no text, as they never leave their rank.
enum class Value {
  none,
  activation,           ///< a: output of a stage, for one microbatch
  activation_gradient,  ///< g: the loss's gradient with respect to that output
  gradient_sum,  ///< p: sum of a step's weight gradients, up to and including one microbatch's
  weights,       ///< w: weights of a stage, in one version
  norm,          ///< n: norm of a step's whole gradient
  turn,          ///< t: empty; lets a forward begin
  input_part,    ///< the part of a backward that makes the gradient of the stage's input
  weight_part,   ///< the rest of a backward, which makes the gradients of the weights
  stash,         ///< what a forward keeps for its backward
  open_sum,      ///< a rank's own gradient sum while microbatches are missing, named by the version
};

/// One cell of a plan. Values are named by (stage, microbatch or version), never by buffer.
struct Instruction {
  Op op = Op::forward;
  int stage = -1;    ///< part of the model; -1 for the norm
  int micro = -1;    ///< microbatch, counted over the run
  int version = -1;  ///< version of weights: read (forward, backward, gather) or made (step). A sum
                     ///< or norm is named by the version that it will make
  int peer = -1;     ///< rank (send, recv) or group (reduce, norm, gather)
  Value what = Value::none;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

enum class Lane { compute, message };

/// The kind of cost that an instruction's time and bytes follow from (simulation/costs.h).
enum class Cost { nothing, forward, backward, step, message, reduction, gather };

/// A row of the table: an operation with the value that it takes. The functions needs, frees and
/// makes say which values it uses; in addition, it has these effects:
///   2F5v1   forward   waits for its turn, if one is received. After a drop it recomputes
///   2B5v1   backward  reads the version that its forward read, or a newer one (Plan::drift)
///   2Sv2    step      needs each microbatch added to the sum once; makes the newest version
///   2Da5    drop      leaves the stage's input, for a forward that recomputes
///   2a5>3   send      blocks until a slot is free or the recv is posted. Copies weights, and a
///                     finished sum that this rank steps with, too; moves other values
///   2a5<1   recv      is posted early; both ends have the same name; first in, first out
///   2Rv1@0  reduce    waits for all members of the group; adds their values in rank order: here
///                     gradient sums, whose result has another name; other values keep their name
///   2R5     fold      adds the rank's own sum to the one that arrived; the result is 2p5
///   Rnv1@0  norm      counts the finished sums of all stages, each once
///   2Gwv1@0 gather    makes full weights from the shards of the members
///
/// A message is issued once the computations before it in the row are done; it then waits in a
/// queue per peer and direction, or per group. A computation waits only for its inputs.
/// A version that has a successor dies after its last reader in the row; with drift, at once.
struct Operation {
  /// Which numbers name an instruction, beside its peer.
  struct Fields {
    bool stage, micro, version;
    friend bool operator==(const Fields&, const Fields&) = default;
  };
  Op op;
  Value what;
  const char* letters;  ///< its letters in a text, after the stage: "F", "Da", "a"
  char mark;  ///< what stands before the peer: > or < for a rank, @ for a group, 0 for none
  Fields fields;
  Cost cost;
  const char* words;  ///< what it does, as a format: {what} is its value, {pass} what it computes

  Lane lane() const { return op <= Op::drop ? Lane::compute : Lane::message; }
  bool by_group() const { return mark == '@'; }
};

std::span<const Operation> operations();
/// The numbers that name an operation, for messages: "a stage, a microbatch and a rank, as 2a5>3".
std::string takes(const Operation& row);
/// The row of an instruction; null if its operation does not take its value.
const Operation* find_operation(const Instruction& x);
/// The row of an instruction. throws: Error if there is none
const Operation& operation(const Instruction& x);
/// The name of an operation: "forward", "reduce".
const char* name_of(Op op);
/// Whether x has exactly the numbers that its operation takes.
bool is_named_fully(const Instruction& x);

inline bool is_compute(const Instruction& x) { return operation(x).lane() == Lane::compute; }
/// Whether x is a forward or backward, which computes with a stage's weights.
inline bool uses_weights(const Instruction& x) {
  return x.op == Op::forward || x.op == Op::backward;
}
/// Whether x is a backward that adds to the gradients of weights: a whole one, or the weight part.
inline bool adds_gradient(const Instruction& x) {
  return x.op == Op::backward && x.what != Value::input_part;
}
/// Whether x is a backward that makes the gradient of its input: a whole one, or the input part.
inline bool makes_input_gradient(const Instruction& x) {
  return x.op == Op::backward && x.what != Value::weight_part;
}
inline bool makes_version(const Instruction& x) { return x.op == Op::step; }
/// Whether x is a forward, which begins a microbatch's pass through a stage.
inline bool begins_pass(const Instruction& x) { return x.op == Op::forward; }
inline bool goes_back(const Instruction& x) { return x.op == Op::backward; }
inline bool sends(const Instruction& x) { return x.op == Op::send; }
inline bool receives(const Instruction& x) { return x.op == Op::recv; }
inline bool travels(const Instruction& x) { return sends(x) || receives(x); }
inline bool drops(const Instruction& x) { return x.op == Op::drop; }
/// Whether all members of a group run x together.
inline bool meets(const Instruction& x) { return operation(x).by_group(); }

/// An instruction as text: "2F5v1".
std::string print(const Instruction& instruction);
/// Inverse of print. throws: Error that shows the word
Instruction parse_instruction(const std::string& word);
/// An instruction in words: "receives version 3 of stage 1 from rank 2".
std::string describe(const Instruction& instruction);
/// The kind of a message, as legends and tables name it: "activations", "reductions", ...
std::string message_kind(const Instruction& instruction);

// ---- values by name ----

struct Name {
  Value what = Value::none;
  int stage = 0;
  int number = 0;  ///< microbatch; for weights, open sums and norms, the version

  friend auto operator<=>(const Name&, const Name&) = default;
};

/// A value in words: "the output of stage 1 for microbatch 5".
std::string describe(const Name& name);

/// The name as one number, for tables of large plans.
using Key = std::uint64_t;
constexpr Key key(Value what, int stage, int number) {
  return Key(what) << 60 | Key(stage) << 32 | Key(number);
}
inline Key key(const Name& name) { return key(name.what, name.stage, name.number); }
inline Name name_of(Key key) {
  return {Value(key >> 60), int(key >> 32 & 0xfffffff), int(key & 0xffffffff)};
}

/// The value that an instruction sends, receives, gathers or drops.
inline Name value_of(const Instruction& x) {
  return {x.what, x.stage, x.micro >= 0 ? x.micro : x.version};
}

/// The values that x needs on its rank, as a rule. Only some plans have turns to wait for; a
/// forward that recomputes has its input already; the sums that a norm counts come in addition.
///   tied_versions: see lifetimes.h
std::vector<Name> needs(const Plan& plan, const std::vector<int>& tied_versions,
                        const Instruction& x);
/// Whether x consumes the values of this kind that it needs. The row decides which sums are copied
/// instead, and when weights die that no drop frees.
bool frees(const Instruction& x, Value what);
/// The values that x makes on its rank.
std::vector<Name> makes(const Plan& plan, const Instruction& x);

// ---- instructions ----

inline Instruction forward(int stage, int micro, int version) {
  return {.op = Op::forward, .stage = stage, .micro = micro, .version = version};
}
inline Instruction backward(int stage, int micro, int version) {
  return {.op = Op::backward, .stage = stage, .micro = micro, .version = version};
}
/// A send, recv, gather or drop of weights.
inline Instruction on_weights(Op op, int stage, int version, int peer = -1) {
  return {.op = op, .stage = stage, .version = version, .peer = peer, .what = Value::weights};
}

}  // namespace plangrad::parallel
