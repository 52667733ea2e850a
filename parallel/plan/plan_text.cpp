// The text form of plans. An instruction is the stage, the letters and the numbers that name it:
// print, parse and describe read the table of operations. A plan is a line of header, then one line
// per rank; messages show a cell with its neighbours. Chapter 06.
#include <fmt/ranges.h>

#include <charconv>
#include <istream>
#include <type_traits>

#include "parallel/plan/plan.h"

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

// ---- headers and rows ----

namespace {

std::string show(int number) { return std::to_string(number); }
std::string show(const CodecSpec& spec) { return print(spec); }
std::string show(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}
std::string show(const std::vector<std::vector<int>>& groups) {
  std::vector<std::string> shown;
  for (const std::vector<int>& group : groups) shown.push_back(show(group));
  return fmt::format("{}", fmt::join(shown, "/"));
}

void read(const std::string& word, int& number) {
  bool digits = !word.empty() && word.size() < 9 &&
                std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  PG_CHECK(digits, "expected a number of up to 8 digits, got \"", word, "\"");
  number = std::stoi(word);
}
void read(const std::string& word, bool& yes) {
  int number;
  read(word, number);
  yes = number != 0;
}
void read(const std::string& word, CodecSpec& spec) { spec = parse_codec(word); }
/// Numbers are separated by commas, groups of them by slashes.
template <class T>
void read(const std::string& word, std::vector<T>& list) {
  list.clear();
  for (const std::string& part : split(word, std::is_same_v<T, int> ? ',' : '/'))
    if (!part.empty()) read(part, list.emplace_back());
  PG_CHECK(!list.empty(), "expected numbers, got \"", word, "\"");
}

constexpr std::size_t always_printed = 3;  // the first entries: the plan's size

/// Keys and values of a header, as text. `keep` is one number if it is the same for all stages.
std::vector<std::pair<std::string, std::string>> entries_of(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> entries;
  Plan::for_each_entry(plan, [&](const std::string& key, const auto& value) {
    entries.emplace_back(key, show(value));
    const bool is_of_all = key == "keep" && std::ssize(plan.keep) == plan.stage_count();
    if (is_of_all && std::ranges::count(plan.keep, plan.keep[0]) == plan.stage_count())
      entries.back().second = show(plan.keep[0]);
  });
  return entries;
}

void set_header(Plan& plan, const std::string& key, const std::string& word) {
  bool is_known = false;
  std::string keys;
  Plan::for_each_entry(plan, [&](const std::string& each, auto& value) {
    keys += ' ' + each;
    if (each != key) return;
    is_known = true;
    read(word, value);
  });
  PG_CHECK(is_known, "a plan's header has no \"", key, "\"; it has", keys);
}

/// The header's line: the plan's size, and what differs from the defaults.
std::string print_header(const Plan& plan) {
  std::string out;
  const auto entries = entries_of(plan), defaults = entries_of(Plan());
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (i < always_printed || entries[i] != defaults[i])
      out += text(out.empty() ? "" : " ", entries[i].first, ' ', entries[i].second);
  return out;
}

Plan parse_header(const std::string& line) {
  constexpr std::size_t longest = 1 << 20;  // bytes; that of 10,000 ranks has some 100,000
  PG_CHECK(line.size() <= longest, "a header has at most ", longest, " bytes, not ", line.size());
  Plan plan;
  std::istringstream in(line);
  for (std::string key, value; in >> key;) {
    PG_CHECK(in >> value, "the header ends after \"", key, "\", which needs a value");
    set_header(plan, key, value);
  }
  PG_CHECK(plan.stages < 1 << 20, "expected fewer than ", 1 << 20, " stages, got ", plan.stages);
  if (plan.keep.size() == 1 && plan.stages > 0) plan.keep.resize(plan.stage_count(), plan.keep[0]);
  return plan;
}

/// The messages of a member's part in a sum of gradients: each member sends to each.
int messages_of(const Instruction& x, const Plan& plan) {
  if (!meets(x) || x.what != Value::gradient_sum || x.peer >= std::ssize(plan.groups)) return 0;
  return static_cast<int>(plan.groups[x.peer].size()) * (plan.sharded > 0 ? 1 : 2);
}

/// Adds a row, with the bars that an endless plan has in each. The counts are those of all rows.
void parse_row(const std::string& line, Plan& plan, int& cells, int& messages) {
  PG_CHECK(plan.ranks() < most_ranks, "a plan has at most ", most_ranks, " rows, one per rank");
  Row row;
  std::vector<int> bars;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    if (word == "|")
      bars.push_back(static_cast<int>(row.size()));
    else if (word != "-") {  // the line of a rank without work
      row.push_back(parse_instruction(word));
      messages += messages_of(row.back(), plan);
      PG_CHECK(std::max(++cells, messages) <= most_cells, "a plan has at most ", most_cells,
               " cells, and messages of sums; use fewer steps, or bars, which repeat them");
    }
  }
  PG_CHECK(row.empty() || line.find('-') == line.npos,
           "\"-\" is the whole row of a rank without work; a row has no pauses");
  const std::size_t expected = plan.is_endless() ? 2 : 0;
  PG_CHECK(bars.size() == expected, "this row has ", counted(bars.size(), "bar"), "; ",
           plan.is_endless() ? "each row of a plan with a period has two, around its body"
                             : "only a plan with a period has bars: two in each row");
  if (plan.is_endless()) plan.bars.push_back({bars[0], bars[1]});
  plan.rows.push_back(std::move(row));
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out = print_header(plan) + '\n';
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<std::string> cells;
    for (const Instruction& x : plan.rows[rank]) cells.push_back(print(x));
    if (cells.empty()) cells = {"-"};  // a rank without work keeps its line
    if (plan.is_endless()) {
      cells.insert(cells.begin() + plan.bars[rank].second, "|");
      cells.insert(cells.begin() + plan.bars[rank].first, "|");
    }
    out += fmt::format("{}\n", fmt::join(cells, " "));
  }
  return out;
}

Plan parse(const std::string& text_form) {
  std::istringstream in(text_form);
  return parse(in);
}

Plan parse(std::istream& in) {
  constexpr int most_lines = 1 << 20;  // a text may be endless, and have no row
  Plan plan;
  bool has_header = false;
  int number = 0, cells = 0, messages = 0;
  for (std::string line; std::getline(in, line);) {
    PG_CHECK(++number <= most_lines, "plan: it has more than ", most_lines, " lines");
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      if (!has_header)
        plan = parse_header(line);
      else
        parse_row(line, plan, cells, messages);
    } catch (const Error& error) {
      throw Error(text("plan, line ", number, ": ", error.what()));
    }
    has_header = true;
  }
  PG_CHECK(!plan.rows.empty(), "a plan begins with \"stages\", then has one line per rank; ",
           "this text has ", has_header ? "no rank" : "neither");
  return plan;
}

std::string mark(const Plan& plan, int rank, int index) {
  if (rank < 0 || rank >= plan.ranks()) return "";
  constexpr int around = 6;
  const Row& row = plan.rows[rank];
  int size = static_cast<int>(row.size());
  int first = std::max(0, index - around), last = std::min(size, index + around + 1);
  std::string out = text("  rank ", rank, ":", first > 0 ? " ..." : "");
  for (int i = first; i < last; ++i)
    out += i == index ? text(" [", print(row[i]), "]") : text(" ", print(row[i]));
  if (index >= size) out += " [end]";
  return out + (last < size ? " ..." : "");
}

}  // namespace plangrad::parallel
