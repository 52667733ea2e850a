// The text form of a plan: a line of header, then one line a rank; and how messages show a cell.
// Not here: single instructions (operations.cpp).
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

/// One entry of a header: its key, its value as text, and how the value is read.
struct Entry {
  const char* key;
  std::string (*print)(const Plan& plan);
  void (*read)(Plan& plan, const std::string& value);
};

template <int Plan::*member>
constexpr Entry number(const char* key) {
  return {key, [](const Plan& plan) { return std::to_string(plan.*member); },
          [](Plan& plan, const std::string& value) { plan.*member = parse_number(value); }};
}

template <std::vector<int> Plan::*member>
constexpr Entry numbers(const char* key) {
  return {key, [](const Plan& plan) { return join(plan.*member); },
          [](Plan& plan, const std::string& value) { plan.*member = parse_numbers(value); }};
}

template <CodecSpec Plan::*member>
constexpr Entry codec(const char* key) {
  return {key, [](const Plan& plan) { return print(plan.*member); },
          [](Plan& plan, const std::string& value) { plan.*member = parse_codec(value); }};
}

std::string print_keep(const Plan& plan) {
  bool uniform = std::all_of(plan.keep.begin(), plan.keep.end(),
                             [&](int keep) { return keep == plan.keep.front(); });
  return uniform ? join({plan.keep.front()}) : join(plan.keep);
}

std::string print_groups(const Plan& plan) {
  std::string out;
  for (const auto& group : plan.groups) out += text(out.empty() ? "" : "/", join(group));
  return out;
}

constexpr Entry entries[] = {
    number<&Plan::stages>("stages"),
    number<&Plan::per_step>("per_step"),
    number<&Plan::steps>("steps"),
    number<&Plan::first>("first"),
    number<&Plan::sharded>("sharded"),
    {"clip", [](const Plan& plan) { return std::to_string(plan.clip); },
     [](Plan& plan, const std::string& value) { plan.clip = parse_number(value) != 0; }},
    number<&Plan::stagger>("stagger"),
    number<&Plan::gap>("gap"),
    {"keep", print_keep, numbers<&Plan::keep>("").read},
    number<&Plan::in_flight>("in_flight"),
    numbers<&Plan::home>("home"),
    {"groups", print_groups,
     [](Plan& plan, const std::string& value) { plan.groups = parse_groups(value); }},
    numbers<&Plan::tied>("tied"),
    codec<&Plan::codec>("codec"),
    codec<&Plan::channel>("channel"),
};
constexpr int always_printed = 3;  // of the entries: the plan's size

void set_header(Plan& plan, const std::string& key, const std::string& value) {
  std::string keys;
  for (const Entry& entry : entries) {
    if (key == entry.key) return entry.read(plan, value);
    keys += text(' ', entry.key);
  }
  throw autograd::Error(text("a plan's header has no \"", key, "\"; it has", keys));
}

/// What differs from a plan's defaults.
std::string print_header(const Plan& plan) {
  std::string out;
  for (const Entry& entry : entries) {
    const std::string value = entry.print(plan);
    if (&entry - entries >= always_printed && value == entry.print(Plan())) continue;
    out += text(out.empty() ? "" : " ", entry.key, ' ', value);
  }
  return out;
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
  std::string out = print_header(plan) + '\n';
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
