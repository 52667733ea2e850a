// The table of plan.h once more, column "needs on its rank", for values that messages bring.
// Not here: whether a value exists at all (verify).
// Chapter 06.
#include "parallel/simulation/arrivals.h"

#include <algorithm>

namespace paragrad::parallel {

/// A step's sum while microbatches are still missing, whichever was added last.
Key Arrivals::open_sum(int stage, int version) const { return key(Value::none, stage, version); }

/// It is named by the last microbatch of its step.
Key Arrivals::finished_sum(int stage, int version) const {
  return key(Value::gradient_sum, stage, version * plan_.per_step - 1);
}

std::vector<Key> Arrivals::keys(const Instruction& x) const {
  std::vector<Key> keys;
  switch (x.op) {
    case Op::forward:
      keys = {key(Value::activation, x.stage - 1, x.micro), key(Value::turn, x.stage, x.micro)};
      break;
    case Op::backward: keys = {key(Value::activation_gradient, x.stage, x.micro)}; break;
    case Op::step:
      keys = {finished_sum(x.stage, x.version)};
      if (plan_.clip) keys.push_back(key(Value::norm, 0, x.version));
      return keys;
    case Op::drop:
      if (x.what == Value::gradient_sum) return {finished_sum(x.stage, x.version)};
      return {key(x.what, x.stage, number_of(x))};
    case Op::send: return {key(x.what, x.stage, number_of(x))};
    case Op::reduce:
      if (x.what == Value::norm) return {};
      return {open_sum(x.stage, x.peer < 0 ? plan_.made_by(x.micro) : x.version)};
    case Op::recv:
    case Op::gather: return {};
  }
  // Forward and backward read weights, which may have been sent or gathered.
  keys.push_back(key(Value::weights, x.stage, x.version));
  if (std::find(plan_.tied.begin(), plan_.tied.end(), x.stage) != plan_.tied.end()) {
    int version = tied_versions_.at(x.micro - plan_.first_micro());
    keys.push_back(key(Value::weights, plan_.stages, version));
  }
  return keys;
}

std::vector<int> Arrivals::inputs(const Instruction& x) const {
  std::vector<int> events;
  for (Key key : keys(x))
    if (auto found = last_.find(key); found != last_.end()) events.push_back(found->second);
  if (x.what != Value::norm) return events;
  auto sums = finished_sums_.find(x.version);
  return sums == finished_sums_.end() ? events : sums->second;
}

/// A norm counts a sum on the rank that finished it, or at its home; not on those it visits.
void Arrivals::add_sum(const Instruction& x, int micro, int event) {
  const int stage = x.stage;
  last_[key(Value::gradient_sum, stage, micro)] = event;
  bool finished = (micro + 1) % plan_.per_step == 0,
       visits = x.op == Op::recv && plan_.home.empty();
  if (finished && !visits)
    finished_sums_[plan_.made_by(micro)].push_back(event);
  else if (!finished)
    last_[open_sum(stage, plan_.made_by(micro))] = event;
}

void Arrivals::add(const Instruction& x, int event) {
  if (x.op != Op::recv && x.op != Op::reduce && x.op != Op::gather) return;
  if (x.what == Value::norm)
    last_[key(Value::norm, 0, x.version)] = event;
  else if (x.op == Op::reduce && x.peer >= 0)
    add_sum(x, x.version * plan_.per_step - 1, event);
  else if (x.op == Op::reduce || x.what == Value::gradient_sum)
    add_sum(x, x.micro, event);
  else
    last_[key(x.what, x.stage, number_of(x))] = event;
}

}  // namespace paragrad::parallel
