// Masks: which elements of parameters are kept when a model is pruned, and how methods choose them.
// Not here: when a run prunes (prune_run.h), and what is stored of pruned parameters (samo.h).
// Chapter 11; Han et al. 2015 (magnitude), Zhu and Gupta 2017 (gradual), Frankle and Carbin 2019
// (lottery tickets), You et al. 2020 (Early-Bird tickets), Singh and Bhatele 2023 (SAMO).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/engine/training.h"

namespace paragrad::sparse {

using namespace paragrad::parallel;

// [snippet masks]
/// The kept elements of one parameter, ascending, counted over its flattened view.
using Index = std::vector<std::int32_t>;
/// An index for each pruned parameter, by its name. A parameter without one is kept whole.
using Masks = std::map<std::string, Index>;

/// Whether a parameter is pruned: matrices and kernels of convolutions. Embeddings, biases and
/// norms are small, and are kept unless `all` asks for them. Statistics are no weights.
bool is_prunable(const Parameter& parameter, bool all = false);

/// Elements that stay of `count` when the fraction `pruned` of them goes: the nearest whole number,
/// and one at least.
/// throws: Error unless 0 <= pruned < 1
std::int64_t kept_count(std::int64_t count, double pruned);
// [end snippet]

/// throws: Error unless the index ascends within the parameter
void check_index(const Parameter& parameter, const Index& index);

/// One parameter, as a method sees it: elements with greater keys are kept first; ties keep the
/// earlier element.
struct Candidate {
  std::string name;
  std::size_t place = 0;  ///< in the whole model's order, which decides between equal keys
  std::vector<std::uint32_t> keys;
};

/// Keys that are ordered as |x| is, x being the weights that forward reads: in bf16 many are equal.
/// An element that was pruned before, which `kept` then tells, has the least one, so that it stays
/// pruned.
/// throws: Error that names the parameter, if a value is not finite
std::vector<std::uint32_t> magnitude_keys(const std::string& name, std::span<const double> values,
                                          const Index* kept = nullptr);
/// Keys that depend on seed, name and position alone.
std::vector<std::uint32_t> random_keys(const std::string& name, std::int64_t count,
                                       std::uint64_t seed);

/// Indices of the `count` greatest keys.
Index greatest(const std::vector<std::uint32_t>& keys, std::int64_t count);

/// Adds lists of counts up over all ranks, element by element. On one rank it changes nothing.
using SumCounts = std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>& own)>;

/// Masks that prune the same fraction of every parameter.
Masks prune_each(const std::vector<Candidate>& candidates, double pruned);
/// Masks that prune a fraction of all together. Every rank calls it with candidates of its own;
/// the masks do not depend on how they are spread. `places`: parameters of the whole model.
Masks prune_all(const std::vector<Candidate>& candidates, std::size_t places, double pruned,
                const SumCounts& sum);

// [snippet ramp]
/// The fraction that is pruned at `step` on the way to `pruned`, which begins at step `first` and
/// ends at `last`:
///   pruned (1 - (1 - (step - first) / (last - first))^3)
/// source: Zhu and Gupta 2017, eq. 1, from 0
double gradual_fraction(double pruned, int step, int first, int last);

/// The fraction after round `round` of `rounds`, each of which keeps the same share of the rest.
/// source: Frankle and Carbin 2019, section 2
double lottery_fraction(double pruned, int round, int rounds);
// [end snippet]

// [snippet early_bird]
/// Draws masks again and again while a model trains. The newest is the ticket once the share of
/// elements in which it differs from each of the five masks before is at most 0.1. Masks of a
/// fraction p differ in 2 (1 - p) of the elements at most, so above p = 0.95 any five do.
/// source: You et al. 2020, algorithm 1, which looks at channels; here at single elements
struct EarlyBird {
  static constexpr int window = 5;
  static constexpr double threshold = 0.1;

  /// The masks of the window, the oldest first; those of other parameters than this rank's do no
  /// harm.
  std::deque<Masks> draws;

  /// Adds the newest mask of this rank's parameters, which have `elements` in all. All ranks call
  /// it together. Returns the largest of the distances to the masks in the window, infinity while
  /// there are fewer than five.
  double distance(const Masks& newest, std::int64_t elements, const SumCounts& sum);
};
// [end snippet]

}  // namespace paragrad::sparse
