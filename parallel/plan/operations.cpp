// The table of operations, and what follows from it. The text of an instruction is its stage, its
// letters and the numbers that name it, so print and parse read the table, too.
// Chapter 06.
#include "parallel/plan/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "autograd/error.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {
namespace {

using autograd::text;
using enum Value;

// [snippet operations]
constexpr Operation::Fields pass{true, true, true}, by_micro{true, true, false},
    by_version{true, false, true}, of_all_stages{false, false, true};

constexpr auto takes_pass = "a stage, a microbatch and a version, as 2F5v1";
constexpr auto takes_value = "a stage, a microbatch and a rank, as 2a5>3";
constexpr auto takes_weights = "a stage, a version and a rank, as 2wv1>3";
constexpr auto takes_drop = "a stage and a version, as 2Dwv1";
constexpr auto words_of_send = "sends {what} to rank {peer}";
constexpr auto words_of_receive = "receives {what} from rank {peer}";

constexpr auto table = std::to_array<Operation>({
    {Op::forward, none, "F", 0, pass, Cost::forward, takes_pass,
     "forward of microbatch {micro} on stage {stage}, with weights of version {version}"},
    {Op::backward, none, "B", 0, pass, Cost::backward, takes_pass,
     "backward of microbatch {micro} on stage {stage}, with weights of version {version}"},
    {Op::backward, input_part, "I", 0, pass, Cost::backward, takes_pass,
     "backward, gradient of the input, of microbatch {micro} on stage {stage}, with weights of "
     "version {version}"},
    {Op::backward, weight_part, "W", 0, pass, Cost::backward, takes_pass,
     "backward, gradient of the weights, of microbatch {micro} on stage {stage}, with weights of "
     "version {version}"},
    {Op::step, none, "S", 0, by_version, Cost::step, "a stage and a version, as 2Sv2",
     "step of stage {stage}: makes version {version}"},
    {Op::drop, activation, "Da", 0, by_micro, Cost::nothing, "a stage and a microbatch, as 2Da5",
     "drops the activations of stage {stage} for microbatch {micro}"},
    {Op::drop, weights, "Dw", 0, by_version, Cost::nothing, takes_drop, "drops {what}"},
    {Op::drop, gradient_sum, "Dp", 0, by_version, Cost::nothing, takes_drop, "drops {what}"},
    {Op::send, activation, "a", '>', by_micro, Cost::message, takes_value, words_of_send},
    {Op::send, activation_gradient, "g", '>', by_micro, Cost::message, takes_value, words_of_send},
    {Op::send, gradient_sum, "p", '>', by_micro, Cost::message, takes_value, words_of_send},
    {Op::send, turn, "t", '>', by_micro, Cost::message, takes_value, words_of_send},
    {Op::send, weights, "w", '>', by_version, Cost::message, takes_weights, words_of_send},
    {Op::recv, activation, "a", '<', by_micro, Cost::message, takes_value, words_of_receive},
    {Op::recv, activation_gradient, "g", '<', by_micro, Cost::message, takes_value,
     words_of_receive},
    {Op::recv, gradient_sum, "p", '<', by_micro, Cost::message, takes_value, words_of_receive},
    {Op::recv, turn, "t", '<', by_micro, Cost::message, takes_value, words_of_receive},
    {Op::recv, weights, "w", '<', by_version, Cost::message, takes_weights, words_of_receive},
    {Op::reduce, gradient_sum, "R", '@', by_version, Cost::reduction,
     "a stage, a version and a group, as 2Rv1@0", "adds {what} over group {peer}"},
    {Op::fold, gradient_sum, "R", 0, by_micro, Cost::nothing,
     "a stage and a microbatch, as 2R5, or a version and a group", "adds its own to {what}"},
    {Op::norm, norm, "Rn", '@', of_all_stages, Cost::reduction, "a version and a group, as Rnv1@0",
     "adds {what} over group {peer}"},
    {Op::gather, weights, "Gw", '@', by_version, Cost::gather,
     "a stage, a version and a group, as 2Gwv1@0", "gathers {what} in group {peer}"},
});
// [end snippet]

/// By operation and value; null where there is no row.
using Index = std::array<std::array<const Operation*, 16>, 16>;

Index make_index() {
  Index index{};
  for (const Operation& row : table)
    index[static_cast<std::size_t>(row.op)][static_cast<std::size_t>(row.what)] = &row;
  return index;
}

// ---- text ----

/// A word's parts, read from left to right: "2wv1>3" is 2, "w", v 1, > 3.
class Word {
 public:
  explicit Word(const std::string& word) : word_(word), at_(word.data()) {
    if (at_digit()) x.stage = number();
    for (; at_ != end() && !at_digit() && !at_any("v><@"); ++at_) letters += *at_;
    if (at_digit()) x.micro = number();
    if (take_if('v')) x.version = number();
    if (at_ != end() && at_any("><@")) {
      mark = *at_++;
      x.peer = number();
    }
    if (at_ != end()) fail("nothing");
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw autograd::Error(text("\"", word_, "\" is no instruction: expected ", expected, " at \"",
                               std::string(at_, end()), "\"; examples: 2F0v0 0a5>1 2Rv1@0 2Sv1"));
  }

  /// Between its stage and its numbers stands no operation.
  [[noreturn]] void fail_at_letters() const {
    std::string known = " ";
    for (const Operation& row : table)
      if (known.find(text(' ', row.letters, ' ')) == known.npos) known += text(row.letters, ' ');
    throw autograd::Error(text("\"", word_, "\" is no instruction: expected one of", known,
                               "for \"", letters, "\"; examples: 2F0v0 0a5>1 2Rv1@0 2Sv1"));
  }

  Instruction x;
  std::string letters;
  char mark = 0;

 private:
  const char* end() const { return word_.data() + word_.size(); }
  bool at_digit() const { return at_ != end() && *at_ >= '0' && *at_ <= '9'; }
  bool at_any(std::string_view set) const { return set.find(*at_) != set.npos; }
  bool take_if(char c) { return at_ != end() && *at_ == c ? (++at_, true) : false; }
  int number() {
    int value = 0;
    auto [stop, problem] = std::from_chars(at_, end(), value);
    if (problem != std::errc() || value < 0) fail("a number");
    at_ = stop;
    return value;
  }

  const std::string& word_;
  const char* at_;
};

Operation::Fields fields_of(const Instruction& x) {
  return {x.stage >= 0, x.micro >= 0, x.version >= 0};
}

}  // namespace

std::span<const Operation> operations() { return table; }

const char* name_of(Op op) {
  static constexpr const char* names[] = {"forward", "backward", "step", "drop", "send",
                                          "recv",    "reduce",   "fold", "norm", "gather"};
  return names[static_cast<std::size_t>(op)];
}

const Operation* find_operation(const Instruction& x) {
  static const Index index = make_index();
  return index[static_cast<std::size_t>(x.op)][static_cast<std::size_t>(x.what)];
}

const Operation& operation(const Instruction& x) {
  const Operation* row = find_operation(x);
  PG_CHECK(row, print(x), ": this operation does not take this value");
  return *row;
}

bool is_named_fully(const Instruction& x) {
  const Operation& row = operation(x);
  return fields_of(x) == row.fields && (x.peer >= 0) == (row.mark != 0);
}

std::string print(const Instruction& x) {
  const Operation* row = find_operation(x);
  if (!row)  // only messages about plans that are no plans show one
    row = &*std::find_if(table.begin(), table.end(), [&](auto& r) { return r.op == x.op; });
  std::string out = x.stage < 0 ? "" : std::to_string(x.stage);
  out += row->letters;
  if (row->fields.micro) out += std::to_string(x.micro);
  if (row->fields.version) out += text('v', x.version);
  return row->mark == 0 ? out : text(out, row->mark, x.peer);
}

Instruction parse_instruction(const std::string& text_form) {
  const Word word(text_form);
  const Operation* like = nullptr;
  for (const Operation& row : table) {
    if (row.letters != word.letters) continue;
    Instruction x = word.x;
    x.op = row.op;
    x.what = row.what;
    if (row.mark == word.mark && is_named_fully(x)) {
      PG_CHECK(print(x) == text_form, "\"", text_form, "\" is no instruction; did you mean ",
               print(x), "?");
      return x;
    }
    if (!like || row.mark == word.mark) like = &row;
  }
  if (!like) word.fail_at_letters();
  throw autograd::Error(
      text("\"", text_form, "\" is no instruction: ", like->letters, " takes ", like->takes));
}

std::string describe(const Name& name) {
  const auto [what, stage, number] = name;
  switch (what) {
    case activation: return text("the output of stage ", stage, " for microbatch ", number);
    case activation_gradient:
      return text("the gradient of stage ", stage, "'s output for microbatch ", number);
    case gradient_sum:
      return text("the gradient sum of stage ", stage, " up to microbatch ", number);
    case weights: return text("version ", number, " of stage ", stage);
    case turn: return text("the turn of microbatch ", number, " at stage ", stage);
    case stash: return text("the activations of stage ", stage, " for microbatch ", number);
    case open_sum: return text("the open sum of stage ", stage, " for version ", number);
    default: return text("the norm of step ", number);
  }
}

std::string describe(const Instruction& x) {
  std::string what = describe(value_of(x));
  if (x.what == gradient_sum && x.micro < 0)
    what = text("the gradient sum of stage ", x.stage, " for version ", x.version);
  return fmt::format(fmt::runtime(operation(x).words), fmt::arg("what", what),
                     fmt::arg("stage", x.stage), fmt::arg("micro", x.micro),
                     fmt::arg("version", x.version), fmt::arg("peer", x.peer));
}

std::string message_kind(const Instruction& x) {
  if (x.op == Op::gather) return "gathers";
  if (x.op == Op::reduce || x.op == Op::fold) return "reductions";
  switch (x.what) {
    case activation: return "activations";
    case activation_gradient: return "activation gradients";
    case gradient_sum: return "gradient sums";
    case weights: return "weights";
    case norm: return "norms";
    default: return "turns";
  }
}

// [snippet needs]
std::vector<Name> needs(const Plan& plan, const std::vector<int>& tied_versions,
                        const Instruction& x) {
  std::vector<Name> names;
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
    case Op::gather: return {value_of(x)};
    case Op::reduce: return {{open_sum, x.stage, x.version}};
    case Op::fold: return {{open_sum, x.stage, plan.made_by(x.micro)}};
    case Op::recv:
    case Op::norm: break;
  }
  if (!uses_weights(x)) return names;
  names.push_back({weights, x.stage, x.version});
  if (plan.uses_tied(x.stage))
    names.push_back({weights, plan.stages, tied_versions.at(x.micro - plan.first_micro())});
  return names;
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
    case Op::reduce: return {{gradient_sum, x.stage, plan.last_micro_of(x.version)}};
    case Op::norm: return {{Value::norm, 0, x.version}};
    case Op::recv:
    case Op::fold:
    case Op::gather: return {value_of(x)};
    case Op::drop:
    case Op::send: break;
  }
  return {};
}
// [end snippet]

}  // namespace paragrad::parallel
