// What messages bring, by name; the table of operations says what an instruction needs of it.
// Not here: whether a value exists at all (verify).
// Chapter 06.
#include "parallel/simulation/arrivals.h"

namespace paragrad::parallel {

std::vector<int> Arrivals::inputs(const Instruction& x) const {
  std::vector<int> events;
  for (const Name& name : needs(plan_, tied_versions_, x))
    if (auto found = last_.find(key(name)); found != last_.end()) events.push_back(found->second);
  if (x.what != Value::norm) return events;
  auto sums = finished_sums_.find(x.version);
  return sums == finished_sums_.end() ? events : sums->second;
}

/// A norm counts a sum on the rank that finished it, or at its home; not on those it visits.
/// A sum is open, and named by its version, while microbatches are missing.
void Arrivals::add_sum(const Name& sum, bool visits, int event) {
  last_[key(sum)] = event;
  const int version = plan_.made_by(sum.number);
  if (sum.number != plan_.last_micro_of(version))
    last_[key(Value::open_sum, sum.stage, version)] = event;
  else if (!visits)
    finished_sums_[version].push_back(event);
}

void Arrivals::add(const Instruction& x, int event) {
  if (is_compute(x)) return;
  for (const Name& name : makes(plan_, x))
    if (name.what == Value::gradient_sum)
      add_sum(name, receives(x) && plan_.home.empty(), event);
    else
      last_[key(name)] = event;
}

}  // namespace paragrad::parallel
