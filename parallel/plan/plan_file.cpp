// The text form of a plan: a line of header, then one line a rank; and how messages show a cell.
// Not here: single instructions (plan_text.cpp).
// Chapter 06.
#include <algorithm>
#include <sstream>

#include "autograd/error.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {
namespace {

using autograd::text;

std::string join(const std::vector<int>& numbers) {
  std::string result;
  for (int number : numbers) result += text(result.empty() ? "" : ",", number);
  return result;
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

int parse_number(const std::string& word) {
  bool digits = !word.empty() && word.size() < 9 &&
                std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  PG_CHECK(digits, "expected a number, got \"", word, "\"");
  return std::stoi(word);
}

std::vector<int> parse_numbers(const std::string& word) {
  std::vector<int> numbers;
  for (const std::string& part : split(word, ',')) numbers.push_back(parse_number(part));
  return numbers;
}

std::vector<std::vector<int>> parse_groups(const std::string& word) {
  std::vector<std::vector<int>> groups;
  for (const std::string& part : split(word, '/')) groups.push_back(parse_numbers(part));
  return groups;
}

void set_header(Plan& plan, const std::string& key, const std::string& value) {
  if (key == "stages")
    plan.stages = parse_number(value);
  else if (key == "per_step")
    plan.per_step = parse_number(value);
  else if (key == "steps")
    plan.steps = parse_number(value);
  else if (key == "first")
    plan.first = parse_number(value);
  else if (key == "sharded")
    plan.sharded = parse_number(value);
  else if (key == "clip")
    plan.clip = parse_number(value) != 0;
  else if (key == "stagger")
    plan.stagger = parse_number(value);
  else if (key == "gap")
    plan.gap = parse_number(value);
  else if (key == "in_flight")
    plan.in_flight = parse_number(value);
  else if (key == "keep")
    plan.keep = parse_numbers(value);
  else if (key == "home")
    plan.home = parse_numbers(value);
  else if (key == "groups")
    plan.groups = parse_groups(value);
  else if (key == "tied")
    plan.tied = parse_numbers(value);
  else if (key == "codec")
    plan.codec = parse_codec(value);
  else if (key == "channel")
    plan.channel = parse_codec(value);
  else
    throw autograd::Error(
        text("a plan's header has no \"", key, "\"; it has stages per_step steps ",
             "first sharded clip stagger gap in_flight keep home groups tied codec channel"));
}

Plan parse_header(const std::string& line) {
  Plan plan;
  std::istringstream in(line);
  for (std::string key, value; in >> key;) {
    PG_CHECK(in >> value, "the header ends after \"", key, "\", which needs a value");
    set_header(plan, key, value);
  }
  PG_CHECK(plan.stages < 1 << 20, "a plan of ", plan.stages, " stages is beyond what is made here");
  if (plan.keep.size() == 1) plan.keep.resize(plan.stage_count(), plan.keep[0]);
  return plan;
}

Row parse_row(const std::string& line) {
  Row row;
  std::istringstream in(line);
  for (std::string word; in >> word;) row.push_back(parse_instruction(word));
  return row;
}

}  // namespace

std::string print(const Plan& plan) {
  bool uniform = std::all_of(plan.keep.begin(), plan.keep.end(),
                             [&](int keep) { return keep == plan.keep.front(); });
  std::string out =
      text("stages ", plan.stages, " per_step ", plan.per_step, " steps ", plan.steps, " first ",
           plan.first, " sharded ", plan.sharded, " clip ", plan.clip, " stagger ", plan.stagger,
           " gap ", plan.gap, " keep ", uniform ? join({plan.keep.front()}) : join(plan.keep));
  if (plan.in_flight > 0) out += text(" in_flight ", plan.in_flight);
  if (!plan.home.empty()) out += text(" home ", join(plan.home));
  for (std::size_t i = 0; i < plan.groups.size(); ++i)
    out += text(i == 0 ? " groups " : "/", join(plan.groups[i]));
  if (!plan.tied.empty()) out += text(" tied ", join(plan.tied));
  if (!plan.codec.is_none()) out += text(" codec ", print(plan.codec));
  if (!plan.channel.is_none()) out += text(" channel ", print(plan.channel));
  out += '\n';
  for (const Row& row : plan.rows) {
    // A rank without work keeps its line.
    if (row.empty()) out += '-';
    for (std::size_t i = 0; i < row.size(); ++i) out += text(i == 0 ? "" : " ", print(row[i]));
    out += '\n';
  }
  return out;
}

Plan parse(const std::string& text_form) {
  std::istringstream in(text_form);
  Plan plan;
  bool has_header = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      if (!has_header)
        plan = parse_header(line);
      else
        plan.rows.push_back(split(line, ' ') == split("-", ' ') ? Row() : parse_row(line));
    } catch (const autograd::Error& error) {
      throw autograd::Error(text("plan, line ", number, ": ", error.what()));
    }
    has_header = true;
  }
  PG_CHECK(!plan.rows.empty(), "a plan is a line that begins with \"stages\" and one line a rank; ",
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

}  // namespace paragrad::parallel
