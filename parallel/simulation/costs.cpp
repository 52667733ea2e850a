// Time and bytes of single instructions, from the costs of stages and links.
// Not here: waiting (simulate).
// Chapter 06; the formulas of reductions are chapter 04's.
#include "parallel/simulation/costs.h"

#include "autograd/error.h"

namespace paragrad::parallel {
namespace {

/// The value of a list for one stage or rank.
template <class T>
T of(int index, const std::vector<T>& list) {
  return list.size() == 1 ? list[0] : list[index];
}

template <class T>
void check_list(const char* name, const std::vector<T>& list, int count,
                const char* what = "stages") {
  PG_CHECK(list.size() == 1 || list.size() == static_cast<std::size_t>(count), "costs: ", name,
           " has ", list.size(), " values for ", count, ' ', what, ": give one, or one for each");
  for (T value : list)
    PG_CHECK(value >= 0 && value <= std::numeric_limits<T>::max(), "costs: ", name, " is ", value,
             ", expected a number from 0 on");
}

const std::vector<std::int64_t>& given(const std::vector<std::int64_t>& list,
                                       const std::vector<std::int64_t>& otherwise) {
  return list.empty() ? otherwise : list;
}

/// Bytes of the value that an instruction moves or reduces.
std::int64_t value_bytes(const Instruction& x, const Costs& costs) {
  switch (x.what) {
    case Value::activation: return of(x.stage, costs.activation_bytes);
    case Value::activation_gradient:
      return of(x.stage, given(costs.activation_gradient_bytes, costs.activation_bytes));
    case Value::gradient_sum: return of(x.stage, given(costs.sum_bytes, costs.weight_bytes));
    case Value::weights: return of(x.stage, costs.weight_bytes);
    case Value::norm: return sizeof(double);
    default: return 0;  // a turn is empty
  }
}

/// In how many parts a value is sent: one per member of a group, in rounds; otherwise all at once.
std::int64_t parts(const Instruction& x, const Plan& plan) {
  return meets(x) ? static_cast<std::int64_t>(plan.groups[x.peer].size()) : 1;
}

}  // namespace

void check(const Costs& costs, const Plan& plan) {
  check_list("forward", costs.forward, plan.stages);
  check_list("backward", costs.backward, plan.stages);
  check_list("step", costs.step, plan.stage_count());
  check_list("activation_bytes", costs.activation_bytes, plan.stages);
  check_list("activation_gradient_bytes",
             given(costs.activation_gradient_bytes, costs.activation_bytes), plan.stages);
  check_list("weight_bytes", costs.weight_bytes, plan.stage_count());
  check_list("sum_bytes", given(costs.sum_bytes, costs.weight_bytes), plan.stage_count());
  check_list("slowness", costs.slowness, plan.ranks(), "ranks");
  check_list("latency", std::vector<double>{costs.latency}, 1);
  PG_CHECK(costs.bandwidth > 0, "costs: bandwidth is ", costs.bandwidth,
           " bytes/s, expected more than 0; leave it out for links that take no time");
}

std::int64_t rounds(const Instruction& x, const Plan& plan) {
  const std::int64_t others = parts(x, plan) - 1;
  switch (operation(x).cost) {
    case Cost::message: return receives(x) ? 0 : 1;
    case Cost::gather: return others;
    case Cost::reduction:  // of a sharded plan's sums only a part comes back
      return (x.what == Value::gradient_sum && plan.sharded > 0 ? 1 : 2) * others;
    default: return 0;
  }
}

double duration(const Instruction& x, int rank, const Plan& plan, const Costs& costs) {
  if (costs.computation && is_compute(x) && !drops(x)) return costs.computation(x, rank);
  const double seconds = static_cast<double>(value_bytes(x, costs)) / costs.bandwidth;
  auto computed = [&](const std::vector<double>& list) {
    return of(rank, costs.slowness) * of(x.stage, list);
  };
  switch (operation(x).cost) {
    case Cost::nothing: return 0;
    case Cost::forward: return computed(costs.forward);
    case Cost::backward: return computed(costs.backward) / (x.what == Value::none ? 1 : 2);
    case Cost::step: return computed(costs.step);
    case Cost::message: return costs.latency + seconds;
    default: break;
  }
  return static_cast<double>(rounds(x, plan)) *
         (costs.latency + seconds / static_cast<double>(parts(x, plan)));
}

std::int64_t bytes_sent(const Instruction& x, const Plan& plan, const Costs& costs) {
  const std::int64_t number = rounds(x, plan);
  return number == 0 ? 0 : number * value_bytes(x, costs) / parts(x, plan);
}

std::int64_t value_bytes(const Instruction& x, const Plan& plan, std::int64_t sent) {
  return sent * parts(x, plan) / rounds(x, plan);
}

}  // namespace paragrad::parallel
