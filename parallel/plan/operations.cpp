// The table of operations, and what each operation needs, frees and makes.
// Not here: how an instruction is written and read (plan_text.cpp). Chapter 06.
#include "parallel/plan/operations.h"

#include <array>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {
namespace {

using enum Value;

constexpr Operation::Fields pass{true, true, true}, by_micro{true, true, false},
    by_version{true, false, true}, of_all_stages{false, false, true};

constexpr auto words_of_send = "sends {what} to rank {peer}";
constexpr auto words_of_receive = "receives {what} from rank {peer}";

constexpr auto table = std::to_array<Operation>({
    {Op::forward, none, "F", 0, pass, Cost::forward, "forward of {pass}"},
    {Op::backward, none, "B", 0, pass, Cost::backward, "backward of {pass}"},
    {Op::backward, input_part, "I", 0, pass, Cost::backward,
     "backward, gradient of the input, of {pass}"},
    {Op::backward, weight_part, "W", 0, pass, Cost::backward,
     "backward, gradient of the weights, of {pass}"},
    {Op::step, none, "S", 0, by_version, Cost::step,
     "update of stage {stage}: makes version {version}"},
    {Op::drop, activation, "Da", 0, by_micro, Cost::nothing,
     "drops the activations of stage {stage} for microbatch {micro}"},
    {Op::drop, weights, "Dw", 0, by_version, Cost::nothing, "drops {what}"},
    {Op::drop, gradient_sum, "Dp", 0, by_version, Cost::nothing,
     "drops the gradient sum of stage {stage} for version {version}"},
    {Op::send, activation, "a", '>', by_micro, Cost::message, words_of_send},
    {Op::send, activation_gradient, "g", '>', by_micro, Cost::message, words_of_send},
    {Op::send, gradient_sum, "p", '>', by_micro, Cost::message, words_of_send},
    {Op::send, turn, "t", '>', by_micro, Cost::message, words_of_send},
    {Op::send, weights, "w", '>', by_version, Cost::message, words_of_send},
    {Op::recv, activation, "a", '<', by_micro, Cost::message, words_of_receive},
    {Op::recv, activation_gradient, "g", '<', by_micro, Cost::message, words_of_receive},
    {Op::recv, gradient_sum, "p", '<', by_micro, Cost::message, words_of_receive},
    {Op::recv, turn, "t", '<', by_micro, Cost::message, words_of_receive},
    {Op::recv, weights, "w", '<', by_version, Cost::message, words_of_receive},
    {Op::reduce, gradient_sum, "R", '@', by_version, Cost::reduction,
     "adds the gradient sum of stage {stage} for version {version} over group {peer}"},
    {Op::fold, gradient_sum, "R", 0, by_micro, Cost::nothing, "adds its own to {what}"},
    {Op::norm, norm, "Rn", '@', of_all_stages, Cost::reduction, "adds {what} over group {peer}"},
    {Op::gather, weights, "Gw", '@', by_version, Cost::gather, "gathers {what} in group {peer}"},
});

/// The rows by operation and value; null where there is none.
constexpr auto index = [] {
  std::array<std::array<const Operation*, 16>, 16> rows{};
  for (const Operation& row : table)
    rows[static_cast<std::size_t>(row.op)][static_cast<std::size_t>(row.what)] = &row;
  return rows;
}();

}  // namespace

std::span<const Operation> operations() { return table; }

const char* name_of(Op op) {
  static constexpr const char* names[] = {"forward", "backward", "step", "drop", "send",
                                          "recv",    "reduce",   "fold", "norm", "gather"};
  return names[static_cast<std::size_t>(op)];
}

const Operation* find_operation(const Instruction& x) {
  return index[static_cast<std::size_t>(x.op)][static_cast<std::size_t>(x.what)];
}

const Operation& operation(const Instruction& x) {
  const Operation* row = find_operation(x);
  PG_CHECK(row, print(x), ": this operation does not take this value");
  return *row;
}

bool is_named_fully(const Instruction& x) {
  const Operation& row = operation(x);
  const Operation::Fields fields{x.stage >= 0, x.micro >= 0, x.version >= 0};
  return fields == row.fields && (x.peer >= 0) == (row.mark != 0);
}

std::vector<Name> needs(const Plan& plan, const std::vector<int>& tied_versions,
                        const Instruction& x) {
  std::vector<Name> names;
  names.reserve(4);
  switch (x.op) {
    case Op::forward:
      if (x.stage > 0) names.push_back({activation, x.stage - 1, x.micro});
      names.push_back({turn, x.stage, x.micro});
      break;
    case Op::backward:
      names.push_back({stash, x.stage, x.micro});
      if (x.stage < plan.stages - 1 && x.what != weight_part)
        names.push_back({activation_gradient, x.stage, x.micro});
      break;
    case Op::step:
      names = {{gradient_sum, x.stage, plan.last_micro_of(x.version)},
               {weights, x.stage, x.version - 1}};
      if (plan.clip) names.push_back({Value::norm, 0, x.version});
      break;
    case Op::drop:
      if (x.what == activation) return {{stash, x.stage, x.micro}};
      if (x.what == gradient_sum) return {{gradient_sum, x.stage, plan.last_micro_of(x.version)}};
      return {value_of(x)};
    case Op::send:
      if (x.what == turn) return {};  // it is empty: any rank can make one
      return {value_of(x)};
    case Op::gather: return {value_of(x)};
    case Op::reduce:
      if (x.what == gradient_sum) return {{open_sum, x.stage, x.version}};
      return {value_of(x)};
    case Op::fold: return {{open_sum, x.stage, plan.made_by(x.micro)}};
    case Op::recv:
    case Op::norm: break;
  }
  if (!uses_weights(x)) return names;
  names.push_back({weights, x.stage, x.version});
  if (!plan.uses_tied(x.stage)) return names;
  const int tied = plan.drift > 0 ? x.version : tied_versions.at(x.micro - plan.first_micro());
  names.push_back({weights, plan.stages, tied});
  return names;
}

bool frees(const Instruction& x, Value what) {
  if (what == weights) return drops(x);
  if (what == stash) return x.what != input_part;
  return what != Value::norm;
}

std::vector<Name> makes(const Plan& plan, const Instruction& x) {
  switch (x.op) {
    case Op::forward:
      if (x.stage == plan.stages - 1) return {{stash, x.stage, x.micro}};
      return {{stash, x.stage, x.micro}, {activation, x.stage, x.micro}};
    case Op::backward: {
      std::vector<Name> names;
      if (x.stage > 0 && x.what != weight_part)
        names.push_back({activation_gradient, x.stage - 1, x.micro});
      if (!adds_gradient(x)) return names;
      names.push_back({open_sum, x.stage, plan.made_by(x.micro)});
      if (plan.uses_tied(x.stage)) names.push_back({open_sum, plan.stages, plan.made_by(x.micro)});
      return names;
    }
    case Op::step: return {{weights, x.stage, x.version}};
    case Op::reduce:
      if (x.what == gradient_sum) return {{gradient_sum, x.stage, plan.last_micro_of(x.version)}};
      return {value_of(x)};
    case Op::norm: return {{Value::norm, 0, x.version}};
    case Op::recv:
    case Op::fold:
    case Op::gather: return {value_of(x)};
    case Op::drop:
    case Op::send: break;
  }
  return {};
}

}  // namespace plangrad::parallel
