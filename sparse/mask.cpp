// Parameters are told apart by their names and by what weight decay holds for: matrices.
// Chapter 11.
#include "sparse/mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paragrad::sparse {

bool is_prunable(const Parameter& parameter, bool all) {
  if (parameter.kind != ParameterKind::weight) return false;
  const bool embeds = parameter.name == "wte.weight" || parameter.name == "wpe.weight";
  return all || (parameter.shape.rank() >= 2 && !embeds);
}

std::int64_t kept_count(std::int64_t count, double pruned) {
  PG_CHECK(pruned >= 0 && pruned < 1, "pruning: expected a fraction from 0 to below 1, got ",
           pruned);
  return std::max<std::int64_t>(std::min<std::int64_t>(count, 1),
                                std::llround((1 - pruned) * static_cast<double>(count)));
}

std::int64_t differences(const Index& a, const Index& b) {
  std::int64_t common = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    const std::int32_t left = *i, right = *j;
    common += left == right;
    i += left <= right;
    j += right <= left;
  }
  return static_cast<std::int64_t>(a.size() + b.size()) - 2 * common;
}

void check_index(const Parameter& parameter, const Index& index) {
  const std::int64_t count = parameter.shape.numel();
  PG_CHECK(count <= std::numeric_limits<std::int32_t>::max(), "pruning: ", parameter.name, " has ",
           count, " elements, more than an index of 32 bits can count");
  const bool ascends =
      std::adjacent_find(index.begin(), index.end(), std::greater_equal<>()) == index.end();
  PG_CHECK(ascends && (index.empty() || (index.front() >= 0 && index.back() < count)),
           "pruning: ", "the kept elements of ", parameter.name,
           " must ascend from 0 on and be below ", count,
           "; the mask is damaged or of another model");
}

}  // namespace paragrad::sparse
