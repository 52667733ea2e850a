// The text form of a plan: a line of header, then one line per rank; and how messages show a cell.
// Not here: single instructions (operation_text.cpp). Chapter 06.
#include <fmt/ranges.h>

#include <istream>
#include <type_traits>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {
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
    if (key == "keep" &&
        std::ranges::adjacent_find(plan.keep, std::not_equal_to()) == plan.keep.end())
      entries.back().second = show(plan.keep.front());
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

/// Adds a row, with the bars that an endless plan has in each.
void parse_row(const std::string& line, Plan& plan) {
  Row row;
  std::vector<int> bars;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    if (word == "|")
      bars.push_back(static_cast<int>(row.size()));
    else if (word != "-")  // the line of a rank without work
      row.push_back(parse_instruction(word));
  }
  const std::size_t expected = plan.is_endless() ? 2 : 0;
  PG_CHECK(bars.size() == expected, "this row has ", bars.size(), " bars; ",
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
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    PG_CHECK(++number <= most_lines, "plan: it has more than ", most_lines, " lines");
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      if (!has_header)
        plan = parse_header(line);
      else
        parse_row(line, plan);
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
