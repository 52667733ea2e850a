// Holdings: what each rank has in memory, from when to when, and how many bytes that is. They
// follow from the rows by the table of operations, in the time of a timeline.
// Not here: the bytes of a real run (autograd/device.h). Chapters 06 to 09.
#pragma once

#include <array>
#include <numeric>

#include "parallel/plan/timeline.h"
#include "parallel/simulation/costs.h"

namespace plangrad::parallel {

/// How a rank has a value.
enum class Hold {
  weights,      ///< a version of a stage, whole
  shard,        ///< the rank's part of a version (ZeRO)
  copy,         ///< a version that a message brought, until it is dropped
  activations,  ///< what a forward keeps for its backward
  input,        ///< a stage's input alone, until a second forward makes the rest again
  open_sum,     ///< the rank's own sum of gradients, while microbatches are missing
  sum,          ///< a sum that came from others, or is finished
  sum_shard,    ///< the rank's part of a finished sum, once it has dropped the rest (ZeRO)
  arrived,      ///< an output or gradient that has come and waits for its reader
  leaving,      ///< an output or gradient that waits until it is sent
  // Memory without a value: only under_way() has these.
  room,      ///< room for a value that a message or a collective will bring
  working,   ///< what an instruction takes beside its values, while it runs
  opening,   ///< what a backward takes beside its values, if it begins a sum
  waiting,   ///< a change of what activations take, once the first part of a backward is done
  twice,     ///< what an input and the output that it is have in common, on one rank
  expanded,  ///< all elements of weights that are stored in part, while a gathered version is read
};
constexpr int hold_kinds = 10;  ///< the kinds of values
/// The name of a kind, as pages show it: "weights", "gradient sum".
const char* name_of(Hold hold);

/// A value on a rank. Sums have the number of the version that they make.
struct Holding {
  int rank = 0;
  Hold hold = Hold::weights;
  Name name;
  double start = 0, end = 0;  ///< seconds
  bool lives_on = false;      ///< whether it is there after the plan, at whose end it has its end
};

/// All that ranks hold during a plan, rank by rank in the order in which it comes.
///   plan: an ordinary plan, not an endless one, whose rows have the order in which they ran:
///         in_order(plan, costs)
///   timeline: simulated; cells without a record have not run
std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline);

/// The memory that ranks have beside values, as the engine takes and frees it: room for what is on
/// its way, from when a rank posts the receive; what computations and collectives need while they
/// run, under the name of what they make; and the differences of Hold::waiting and Hold::twice.
///   held: the plan's holdings. Outputs that leave are shortened: while the forward's activations
///         are there, they have the output's bytes
std::vector<Holding> under_way(const Plan& plan, const Timeline& timeline,
                               std::vector<Holding>& held);

/// A timeline in which each cell of a row takes one unit of time: for counts that depend on the
/// order of a rank's cells alone.
Timeline in_row_order(const Plan& plan);

/// The most holdings of one kind that a rank has at once. If one ends as another begins, they do
/// not count together.
std::vector<int> most_held(const std::vector<Holding>& held, Hold hold, int ranks);

// ---- bytes ----

/// Bytes of a stage's values in memory. A list has a value for each stage, or one for all; the last
/// one of weights, sum and optimizer is the tied stage's.
struct Sizes {
  using List = std::vector<double>;
  List weights = {0};      ///< one version
  List sum = {0};          ///< a sum of gradients
  List optimizer = {0};    ///< the optimizer's state
  List activations = {0};  ///< what a forward keeps of one microbatch
  List output = {0};       ///< the stage's output for one, and its gradient

  // What a model on a device says (parallel/planner).
  double first_input = 0;  ///< the model's input for one microbatch
  List waiting = {};       ///< what is kept between the parts of a backward; empty: as activations
  List forward = {0}, backward = {0};        ///< what one takes while it runs, beside what is kept
  List input_part = {0}, weight_part = {0};  ///< what the parts of a backward take likewise
  List opening = {0}, opening_part = {0};    ///< what a backward, or its second part, takes that is
                                             ///< the first of a sum, beside all of the sum
  List sum_window = {0};                     ///< pieces of a sum that are on their way
  List sum_code = {0};                       ///< a sum once more, encoded for a message
  double norm = 0;                           ///< the parts of a norm
  // As long as a rank runs, of each stage that it holds:
  List expanded = {0};           ///< one version with all its elements, where the state has fewer
  List index = {0};              ///< indices of these elements
  List residual = {0};           ///< what codecs remember
  double losses = 0;             ///< the losses of an update, beside the last stage
  std::vector<int> shards = {};  ///< parts of each stage's state; empty: as many as ranks have it
  /// Bytes of an element, between which shards are cut; 0: not known, shards are equal.
  int weight_element = 0, sum_element = 0, optimizer_element = 0;

  bool any() const;  ///< whether something has bytes
};
/// Sizes as far as costs tell them: of activations the output alone, nothing of an optimizer.
Sizes sizes_of(const Costs& costs);

/// What memory is for.
enum class Memory { optimizer, weights, sums, activations, messages, workspace, pruning };
constexpr int memory_kinds = 7;
/// The name of a kind: "gradient sums".
const char* name_of(Memory kind);
Memory memory_of(const Holding& holding);

/// Bytes of a holding. Inputs count as activations; turns have no bytes.
///   holders: by stage, the ranks that keep its state or a shard of it, ascending
double bytes_of(const Holding& holding, const Sizes& sizes, const Plan& plan,
                const std::vector<std::vector<int>>& holders);

/// The bytes that a rank has from time `seconds` on, by kind of memory.
struct MemoryLevel {
  double seconds = 0;
  std::array<double, memory_kinds> bytes = {};
  double total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }
};
/// The memory of each rank over time; each list begins at 0. Holdings are all of the plan's.
std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan,
                                                    const std::vector<Holding>& holdings,
                                                    const Sizes& sizes);
/// The level at which each rank has the most bytes.
std::vector<MemoryLevel> memory_peaks(const Plan& plan, const std::vector<Holding>& holdings,
                                      const Sizes& sizes);

}  // namespace plangrad::parallel
