// Text of instructions: the stage, the letters and the numbers that name it. print, parse and
// describe read the table of operations.
// Not here: rows and headers (plan_file.cpp). Chapter 06.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "autograd/error.h"
#include "parallel/plan/operations.h"

namespace plangrad::parallel {
namespace {

/// A kind of message, as its value names it, and the value in words.
struct ValueWords {
  const char* kind;
  const char* words;
};

/// One row for each Value. Values that no message carries have no kind of message.
constexpr ValueWords words_of_values[] = {
    {"", ""},
    {"activations", "the output of stage {stage} for microbatch {number}"},
    {"activation gradients", "the gradient of stage {stage}'s output for microbatch {number}"},
    {"gradient sums", "the gradient sum of stage {stage} up to microbatch {number}"},
    {"weights", "version {number} of stage {stage}"},
    {"norms", "the norm of update {number}"},
    {"turns", "the turn of microbatch {number} at stage {stage}"},
    {"", ""},
    {"", ""},
    {"", "the activations of stage {stage} for microbatch {number}"},
    {"", "the open sum of stage {stage} for version {number}"},
};

const ValueWords& words_of(Value what) { return words_of_values[static_cast<std::size_t>(what)]; }

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
    if (at_ != end()) fail("nothing at", at_);
  }

  /// Throws the Error for letters that name no operation, or one that takes other numbers.
  [[noreturn]] void fail_at_letters() const {
    std::string forms, known = "one of ";
    for (const Operation& row : operations()) {
      if (row.letters == letters) forms += text(forms.empty() ? "" : ", or ", takes(row));
      if (known.find(text(' ', row.letters, ' ')) == known.npos) known += text(row.letters, ' ');
    }
    PG_CHECK(forms.empty(), "\"", word_, "\" is not an instruction: ", letters, " takes ", forms);
    fail(text(known, "for"), letters);
  }

  Instruction x;
  std::string letters;
  char mark = 0;

 private:
  const char* end() const { return word_.data() + word_.size(); }
  bool at_digit() const { return at_ != end() && *at_ >= '0' && *at_ <= '9'; }
  bool at_any(std::string_view set) const { return set.find(*at_) != set.npos; }
  [[noreturn]] void fail(const std::string& expected, const std::string& part) const {
    throw Error(text("\"", word_, "\" is not an instruction: expected ", expected, " \"", part,
                     "\"; examples: 2F0v0 0a5>1 2Rv1@0 2Sv1"));
  }
  bool take_if(char c) { return at_ != end() && *at_ == c ? (++at_, true) : false; }
  int number() {
    int value = 0;
    auto [stop, problem] = std::from_chars(at_, end(), value);
    if (problem != std::errc() || value < 0) fail("a number at", at_);
    at_ = stop;
    return value;
  }

  const std::string& word_;
  const char* at_;
};

}  // namespace

std::string print(const Instruction& x) {
  const Operation* row = find_operation(x);
  if (!row)  // only error messages show an operation with a wrong value
    row = &*std::ranges::find_if(operations(), [&](auto& r) { return r.op == x.op; });
  std::string out = x.stage < 0 ? "" : std::to_string(x.stage);
  out += row->letters;
  if (row->fields.micro) out += std::to_string(x.micro);
  if (row->fields.version) out += text('v', x.version);
  return row->mark == 0 ? out : text(out, row->mark, x.peer);
}

std::string takes(const Operation& row) {
  const auto [stage, micro, version] = row.fields;
  std::vector<const char*> numbers;
  if (stage) numbers.push_back("a stage");
  if (micro) numbers.push_back("a microbatch");
  if (version) numbers.push_back("a version");
  if (row.mark != 0) numbers.push_back(row.by_group() ? "a group" : "a rank");
  const char* last = numbers.back();
  numbers.pop_back();
  const Instruction example{row.op, stage ? 2 : -1, 5, 1, row.by_group() ? 0 : 3, row.what};
  return fmt::format("{} and {}, as {}", fmt::join(numbers, ", "), last, print(example));
}

Instruction parse_instruction(const std::string& text_form) {
  const Word word(text_form);
  for (const Operation& row : operations()) {
    if (row.letters != word.letters || row.mark != word.mark) continue;
    Instruction x = word.x;
    x.op = row.op;
    x.what = row.what;
    if (!is_named_fully(x)) continue;
    PG_CHECK(print(x) == text_form, "\"", text_form, "\" is not an instruction; did you mean ",
             print(x), "?");
    return x;
  }
  word.fail_at_letters();
}

std::string describe(const Name& name) {
  return fmt::format(fmt::runtime(words_of(name.what).words), fmt::arg("stage", name.stage),
                     fmt::arg("number", name.number));
}

std::string describe(const Instruction& x) {
  const std::string pass =
      text("microbatch ", x.micro, " on stage ", x.stage, ", with weights of version ", x.version);
  return fmt::format(fmt::runtime(operation(x).words), fmt::arg("what", describe(value_of(x))),
                     fmt::arg("pass", pass), fmt::arg("stage", x.stage), fmt::arg("micro", x.micro),
                     fmt::arg("version", x.version), fmt::arg("peer", x.peer));
}

std::string message_kind(const Instruction& x) {
  if (x.op == Op::gather) return "gathers";
  return x.op == Op::reduce || x.op == Op::fold ? "reductions" : words_of(x.what).kind;
}

}  // namespace plangrad::parallel
