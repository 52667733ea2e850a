// Holdings: what each rank has in memory, from when to when, and how many bytes that is. They
// follow from the rows by the table of operations, in the time of a timeline.
// Not here: the bytes of a real run (autograd/device.h). Chapters 06 to 09.
#pragma once

#include <array>

#include "parallel/plan/timeline.h"
#include "parallel/simulation/costs.h"

namespace plangrad::parallel {

/// How a rank has a value.
enum class Hold {
  weights,      ///< a version of a stage, whole
  shard,        ///< its part of a version (ZeRO)
  copy,         ///< a version that a message brought, until it is dropped
  activations,  ///< what a forward keeps for its backward
  input,        ///< a stage's input alone, until a second forward makes the rest again
  open_sum,     ///< the rank's own sum of gradients, while microbatches are missing
  sum,          ///< a sum that came from others, or is finished
  arrived,      ///< an output or gradient that has come and waits for its reader
  leaving,      ///< an output or gradient that waits until it is sent
};
constexpr int hold_kinds = 9;
/// The name of a kind, as pages show it: "weights", "gradient sum".
const char* name_of(Hold hold);

/// A value on a rank. Sums have the number of the version that they make.
struct Holding {
  int rank = 0;
  Hold hold = Hold::weights;
  Name name;
  double start = 0, end = 0;  ///< seconds
};

/// All that ranks hold during a plan, rank by rank in the order in which it comes.
///   plan: an ordinary plan, not an endless one, whose rows have the order in which they ran:
///         in_order(plan, costs)
///   timeline: simulated; cells without a record have not run
std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline);

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
  std::vector<double> weights = {0};      ///< one version
  std::vector<double> sum = {0};          ///< a sum of gradients
  std::vector<double> optimizer = {0};    ///< the optimizer's state
  std::vector<double> activations = {0};  ///< what a forward keeps of one microbatch
  std::vector<double> output = {0};       ///< the stage's output for one, and its gradient
  bool any() const;                       ///< whether something has bytes
};
/// Sizes as far as costs tell them: of activations the output alone, nothing of an optimizer.
Sizes sizes_of(const Costs& costs);

/// What memory is for.
enum class Memory { optimizer, weights, sums, activations, messages };
constexpr int memory_kinds = 5;
/// The name of a kind: "gradient sums".
const char* name_of(Memory kind);
Memory memory_of(Hold hold);

/// Bytes of a holding. Inputs count as activations; turns and norms have no bytes.
///   sharers: by stage, the ranks that keep its state or a shard of it
double bytes_of(const Holding& holding, const Sizes& sizes, const Plan& plan,
                const std::vector<int>& sharers);

/// The bytes that a rank has from time `seconds` on, by kind of memory.
struct MemoryLevel {
  double seconds = 0;
  std::array<double, memory_kinds> bytes = {};
  double total() const;
};
/// The memory of each rank over time; each list begins at 0. Holdings are all of the plan's.
std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan,
                                                    const std::vector<Holding>& holdings,
                                                    const Sizes& sizes);
/// The level at which each rank has the most bytes.
std::vector<MemoryLevel> memory_peaks(const Plan& plan, const std::vector<Holding>& holdings,
                                      const Sizes& sizes);

}  // namespace plangrad::parallel
