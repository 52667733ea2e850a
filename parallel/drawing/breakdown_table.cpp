// Parts that are zero but for rounding, a billionth of the total, are shown as 0.
// Chapter 06.
#include "parallel/drawing/breakdown_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

struct NamedPart {
  const char *key, *name;
  double TimeParts::*seconds;
};

/// The parts in the order in which they are shown.
constexpr NamedPart named_parts[] = {
    {"compute", "compute", &TimeParts::compute},
    {"update", "update", &TimeParts::update},
    {"waiting", "waiting", &TimeParts::waiting},
    {"point_to_point", "point-to-point", &TimeParts::point_to_point},
    {"collective", "collectives", &TimeParts::collective}};

bool is_nothing(double seconds, double total) { return seconds <= total * 1e-9; }

std::string seconds_and_share(double seconds, double total) {
  if (is_nothing(seconds, total)) return "0";
  return fmt::format("{} ({:.3g}%)", seconds_text(seconds), 100 * seconds / total);
}

/// The number of characters, as a terminal shows them: µ is one.
std::size_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

nlohmann::json json_of(const TimeParts& parts) {
  nlohmann::json result;
  for (const auto& [key, name, seconds] : named_parts) result[key] = parts.*seconds;
  return result;
}

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

Table breakdown_table(const std::string& title, const NamedParts& rows) {
  Table table{title, {{""}}};
  for (const NamedPart& part : named_parts) table.rows[0].push_back(part.name);
  for (const auto& [name, parts] : rows) {
    std::vector<std::string>& row = table.rows.emplace_back(1, name);
    for (const NamedPart& part : named_parts)
      row.push_back(seconds_and_share(parts.*part.seconds, parts.total()));
  }
  return table;
}

NamedParts rows_of(const Breakdown& breakdown) {
  constexpr std::size_t most = 16;
  NamedParts rows;
  const std::size_t ranks = breakdown.ranks.size();
  for (std::size_t rank = 0; rank < ranks && ranks <= most; ++rank)
    rows.emplace_back(fmt::format("rank {}", rank), breakdown.ranks[rank]);
  rows.emplace_back(ranks == 1 ? "1 rank" : fmt::format("all {} ranks", ranks), breakdown.all());
  return rows;
}

std::string print(const Table& table) {
  std::vector<std::size_t> widths;
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], characters(row[i]));
    }
  std::string text = table.title.empty() ? "" : table.title + "\n";
  for (const auto& row : table.rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - characters(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string describe(const CriticalPath& path) {
  const double total = path.time.total();
  std::string parts, cells;
  for (const auto& [key, name, seconds] : named_parts)
    if (!is_nothing(path.time.*seconds, total))
      parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", seconds_text(path.time.*seconds),
                           name);
  for (const auto& [count, what] : {std::pair(path.computations, "computation"),
                                    {path.messages, "message"},
                                    {path.collectives, "collective"}})
    if (count > 0) cells += counted(count, what) + ", ";
  return fmt::format("{}{}; {}on {}", seconds_text(total), parts, cells,
                     counted(path.ranks, "rank"));
}

nlohmann::json to_json(const Breakdown& breakdown) {
  auto with_halves = [](const TimeParts& parts) {
    nlohmann::json result = json_of(parts);
    result["forward"] = parts.forward;
    result["backward"] = parts.compute - parts.forward;
    result["other"] = parts.other;
    return result;
  };
  nlohmann::json result = with_halves(breakdown.all());
  result["makespan"] = breakdown.makespan;
  for (const TimeParts& rank : breakdown.ranks) result["ranks"].push_back(with_halves(rank));
  return result;
}

nlohmann::json to_json(const CriticalPath& path) {
  nlohmann::json result = json_of(path.time);
  result["computations"] = path.computations;
  result["messages"] = path.messages;
  result["collectives"] = path.collectives;
  result["ranks"] = path.ranks;
  return result;
}

}  // namespace plangrad::parallel
