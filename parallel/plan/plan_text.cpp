// The text form of instructions: print and parse are inverses, word by word.
// Not here: whole plans (plan_file.cpp), and whether an instruction makes sense (verify).
// Chapter 06.
#include <charconv>

#include "autograd/error.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {
namespace {

using autograd::text;

constexpr std::string_view value_letters = " agpwntIW";  // in the order of Value

char letter(Value value) { return value_letters[static_cast<std::size_t>(value)]; }

/// "a5" or "wv1": a value is named by its microbatch, else by its version.
std::string name(const Instruction& x) {
  return x.micro >= 0 ? text(letter(x.what), x.micro) : text(letter(x.what), 'v', x.version);
}

/// Reads a word from left to right.
class Scanner {
 public:
  explicit Scanner(const std::string& word) : word_(word), at_(word.data()) {}

  bool at_digit() const { return at_ != end() && *at_ >= '0' && *at_ <= '9'; }
  bool at_end() const { return at_ == end(); }
  bool take_if(char c) { return at_ != end() && *at_ == c ? (++at_, true) : false; }
  char take(std::string_view allowed) {
    if (at_ == end() || allowed.find(*at_) == allowed.npos) fail(text("one of ", allowed));
    return *at_++;
  }
  int number() {
    int value = 0;
    auto [stop, problem] = std::from_chars(at_, end(), value);
    if (problem != std::errc() || value < 0) fail("a number");
    at_ = stop;
    return value;
  }
  int number_after(char c) {
    take(std::string_view(&c, 1));
    return number();
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw autograd::Error(text("\"", word_, "\" is no instruction: expected ", expected, " at \"",
                               std::string(at_, end()), "\"; examples: 2F0v0 0a5>1 2Rv1@0 2Sv1"));
  }

 private:
  const char* end() const { return word_.data() + word_.size(); }

  const std::string& word_;
  const char* at_;
};

Instruction parse_compute(Scanner& in, Instruction x, char letter) {
  x.op = letter == 'F' ? Op::forward : Op::backward;
  if (letter == 'I') x.what = Value::input_part;
  if (letter == 'W') x.what = Value::weight_part;
  x.micro = in.number();
  x.version = in.number_after('v');
  return x;
}

Instruction parse_reduce(Scanner& in, Instruction x) {
  x.op = Op::reduce;
  x.what = in.take_if('n') ? Value::norm : Value::gradient_sum;
  if (in.at_digit()) {
    x.micro = in.number();  // a fold
  } else {
    x.version = in.number_after('v');
    x.peer = in.number_after('@');
  }
  return x;
}

/// a, g, p, t by microbatch, w by version; a dropped sum by version, too.
void parse_value(Scanner& in, Instruction& x, std::string_view allowed) {
  x.what = static_cast<Value>(value_letters.find(in.take(allowed)));
  bool versioned = x.what == Value::weights || (x.op == Op::drop && x.what == Value::gradient_sum);
  (versioned ? x.version : x.micro) = versioned ? in.number_after('v') : in.number();
}

Instruction parse_rest(Scanner& in, Instruction x) {
  switch (char c = in.take("FBIWSDRGagpwt")) {
    case 'F':
    case 'B':
    case 'I':
    case 'W': return parse_compute(in, x, c);
    case 'S':
      x.op = Op::step;
      x.version = in.number_after('v');
      return x;
    case 'D':
      x.op = Op::drop;
      parse_value(in, x, "apw");
      return x;
    case 'R': return parse_reduce(in, x);
    case 'G':
      x.op = Op::gather;
      parse_value(in, x, "w");
      x.peer = in.number_after('@');
      return x;
    default:
      x.what = static_cast<Value>(value_letters.find(c));
      (c == 'w' ? x.version : x.micro) = c == 'w' ? in.number_after('v') : in.number();
      x.op = in.take("><") == '>' ? Op::send : Op::recv;
      x.peer = in.number();
      return x;
  }
}

}  // namespace

std::string print(const Instruction& x) {
  std::string stage = x.stage < 0 ? "" : std::to_string(x.stage);
  switch (x.op) {
    case Op::forward: return text(stage, 'F', x.micro, 'v', x.version);
    case Op::backward:
      return text(stage, x.what == Value::none ? 'B' : letter(x.what), x.micro, 'v', x.version);
    case Op::step: return text(stage, "Sv", x.version);
    case Op::drop: return text(stage, 'D', name(x));
    case Op::send: return text(stage, name(x), '>', x.peer);
    case Op::recv: return text(stage, name(x), '<', x.peer);
    case Op::gather: return text(stage, 'G', name(x), '@', x.peer);
    case Op::reduce: break;
  }
  if (x.what == Value::norm) return text("Rnv", x.version, '@', x.peer);
  return x.peer < 0 ? text(stage, 'R', x.micro) : text(stage, "Rv", x.version, '@', x.peer);
}

std::string message_kind(const Instruction& x) {
  if (x.op == Op::gather) return "gathers";
  if (x.op == Op::reduce) return x.what == Value::norm ? "norms" : "reductions";
  switch (x.what) {
    case Value::activation: return "activations";
    case Value::activation_gradient: return "activation gradients";
    case Value::gradient_sum: return "gradient sums";
    case Value::weights: return "weights";
    default: return "turns";
  }
}

Instruction parse_instruction(const std::string& word) {
  Scanner in(word);
  Instruction x;
  if (in.at_digit()) x.stage = in.number();
  x = parse_rest(in, x);
  if (!in.at_end()) in.fail("nothing");
  PG_CHECK(print(x) == word, "\"", word, "\" is no instruction; did you mean ", print(x), "?");
  return x;
}

}  // namespace paragrad::parallel
