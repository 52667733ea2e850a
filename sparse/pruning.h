// Masks: the elements of parameters that pruning keeps; the methods that choose them; and how masks
// get from rank to rank, and through a checkpoint (they are part of a pruned model's state).
// Not here: when a run prunes (prune_run.h), and how pruned parameters are stored (samo.h).
// Chapter 11; Han et al. 2015 (magnitude), Zhu and Gupta 2017 (gradual), Frankle and Carbin 2019
// (lottery tickets), You et al. 2020 (Early-Bird tickets), Singh and Bhatele 2023 (SAMO).
#pragma once

#include "parallel/session/saving.h"

namespace plangrad::sparse {

using namespace plangrad::parallel;

// The functions stand here, as a program that only predicts memory links nothing else of pruning.
// [snippet masks]
/// The kept elements of one parameter: ascending indices into the flattened parameter.
using Index = std::vector<std::int32_t>;
/// An index for each pruned parameter, by name. A parameter without an index is kept whole.
using Masks = std::map<std::string, Index>;

/// Whether a parameter is pruned: matrices and kernels of convolutions are. Embeddings, biases and
/// norms are small, and are pruned only if `all`. Statistics never are: they are not weights.
inline bool is_prunable(const Parameter& parameter, bool all = false) {
  if (parameter.kind != ParameterKind::weight) return false;
  const bool embeds = parameter.name == "wte.weight" || parameter.name == "wpe.weight";
  return all || (parameter.shape.rank() >= 2 && !embeds);
}

/// The number of elements that stay when the fraction `pruned` of `count` elements is pruned: the
/// nearest whole number, but at least one.
/// throws: Error unless 0 <= pruned < 1
inline std::int64_t kept_count(std::int64_t count, double pruned) {
  PG_CHECK(pruned >= 0 && pruned < 1, "pruning: expected a fraction from 0 to below 1, got ",
           pruned);
  return std::max<std::int64_t>(std::min<std::int64_t>(count, 1),
                                std::llround((1 - pruned) * static_cast<double>(count)));
}
// [end snippet]

/// Elements of a parameter's state where this share of each matrix is pruned (SAMO).
inline std::int64_t stored_count(const Parameter& parameter, double pruned) {
  const std::int64_t all = parameter.shape.numel();
  return is_prunable(parameter) ? kept_count(all, pruned) : all;
}

/// throws: Error unless the index ascends within the parameter
void check_index(const Parameter& parameter, const Index& index);

/// A parameter that a method may prune: elements with greater keys stay; ties keep the earlier one.
struct Candidate {
  std::string name;
  std::size_t place = 0;  ///< place in the whole model's order, which decides between equal keys
  std::vector<std::uint32_t> keys;
};

/// Keys in the order of |x|, where x are the weights that forward reads: in bf16, many are equal.
/// Elements that are pruned already, as they are not in `kept`, have the least key and stay pruned.
/// throws: Error that names the parameter, if a value is not finite
std::vector<std::uint32_t> magnitude_keys(const std::string& name, std::span<const double> values,
                                          const Index* kept = nullptr);
/// Keys that depend on seed, name and position alone.
std::vector<std::uint32_t> random_keys(const std::string& name, std::int64_t count,
                                       std::uint64_t seed);

/// The indices of the `count` greatest keys.
Index greatest(const std::vector<std::uint32_t>& keys, std::int64_t count);

/// Sums lists of counts over all ranks, element by element. With one rank, returns its own list.
using SumCounts = std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>& own)>;

/// Makes masks that prune the same fraction of every parameter.
Masks prune_each(const std::vector<Candidate>& candidates, double pruned);
/// Makes masks that prune a fraction of all candidates together. Each rank passes its own ones; the
/// masks do not depend on their distribution. `places`: number of the whole model's parameters.
Masks prune_all(const std::vector<Candidate>& candidates, std::size_t places, double pruned,
                const SumCounts& sum);

// [snippet ramp]
/// The fraction that is pruned at `step` of a ramp to `pruned`, which begins at step `first` and
/// ends at step `last`:
///   pruned (1 - (1 - (step - first) / (last - first))^3)
/// source: Zhu and Gupta 2017, eq. 1, with an initial sparsity of 0
double gradual_fraction(double pruned, int step, int first, int last);

/// The fraction after round `round` of `rounds`; each round keeps the same share of the rest.
/// source: Frankle and Carbin 2019, section 2
double lottery_fraction(double pruned, int round, int rounds);
// [end snippet]

// [snippet early_bird]
/// Draws masks repeatedly while a model trains. The newest mask is the ticket once it differs from
/// each of the five masks before in at most 0.1 of the elements. Masks of a fraction p differ in at
/// most 2 (1 - p) of the elements, so above p = 0.95 any five suffice.
/// source: You et al. 2020, algorithm 1, which compares channels; here it is single elements
struct EarlyBird {
  static constexpr int window = 5;
  static constexpr double threshold = 0.1;

  /// The masks of the window, the oldest first; masks of other ranks' parameters are ignored.
  std::deque<Masks> draws;

  /// Adds the newest masks of this rank's parameters, which have `elements` elements in total. All
  /// ranks call it together. Returns the largest distance to the masks in the window, or infinity
  /// while there are fewer than five.
  double distance(const Masks& newest, std::int64_t elements, const SumCounts& sum);
};
// [end snippet]

/// Makes a function that sums counts over all ranks; all ranks call it together, between plans.
///   timeout: see parallel/transports/launch.h
SumCounts sum_over(Transport& transport, double timeout);
/// Returns the masks of all ranks on every rank. All ranks call it together, between plans.
Masks all_masks(Transport& transport, const Masks& own, double timeout);

/// Writes the draws of a search for an Early-Bird ticket (EarlyBird::draws), so that a run that
/// stops before it has found a ticket resumes with the same window. Each rank writes the draws of
/// the stages that it holds and no lower rank holds.
void write_draws(Engine& engine, const Plan& plan, const std::deque<Masks>& draws,
                 const WriteFile& write_file);
/// Reads all parameters' draws for the fraction `pruned`, the oldest first; empty: there are none.
std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device);

}  // namespace plangrad::sparse
