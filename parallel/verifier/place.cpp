// How a broken rule is reported: the rule, the cell, what is wrong, and the row's neighbourhood.
// Not here: the rules (verify and its parts).
// Chapter 06.
#include "parallel/verifier/place.h"

namespace paragrad::parallel {

using autograd::text;

std::string list(const std::vector<int>& numbers) {
  std::string out = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) out += text(i == 0 ? "" : ", ", numbers[i]);
  return out + "]";
}

void refuse_text(const char* rule, const Place& place, const std::string& what) {
  bool at_end = place.index < 0;
  int index = at_end ? static_cast<int>(place.plan.rows[place.rank].size()) : place.index;
  std::string cell = at_end ? "the end of its row" : print(place.instruction());
  throw PlanError(rule, place.rank, place.index,
                  text(rule, ": rank ", place.rank, ", ", cell, ": ", what, "\n",
                       mark(place.plan, place.rank, index)));
}

}  // namespace paragrad::parallel
