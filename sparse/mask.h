// Masks: which elements of a model's parameters are kept when it is pruned.
// Not here: how they are chosen (pruning.h), and what is stored of pruned parameters (samo.h).
// Chapter 11; Singh and Bhatele 2023 (SAMO), section III.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/engine/training.h"

namespace paragrad::sparse {

using namespace paragrad::parallel;

// [snippet masks]
/// The kept elements of one parameter, ascending, counted over its flattened view.
using Index = std::vector<std::int32_t>;
/// By the parameter's name. One that is not named here is kept whole.
using Masks = std::map<std::string, Index>;

/// Whether a parameter is pruned: matrices and kernels of convolutions. Embeddings, biases and
/// norms are small, and are kept unless `all` asks for them. Statistics are no weights.
bool is_prunable(const Parameter& parameter, bool all = false);

/// Elements that stay of `count` when the fraction `pruned` of them goes: the nearest whole number,
/// and one at least.
/// throws: Error unless 0 <= pruned < 1
std::int64_t kept_count(std::int64_t count, double pruned);
// [end snippet]

/// Elements of each list that the other one lacks, all together.
std::int64_t differences(const Index& a, const Index& b);

/// throws: Error unless the index ascends within the parameter
void check_index(const Parameter& parameter, const Index& index);

}  // namespace paragrad::sparse
