// Parts that are zero but for rounding, a billionth of the total, are shown as 0. Chapter 06.
#include "examples/pages/breakdown_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "parallel/drawing/figure.h"

namespace plangrad::examples {
namespace {

bool is_nothing(double seconds, double total) { return seconds <= total * 1e-9; }

std::string seconds_and_share(double seconds, double total) {
  if (is_nothing(seconds, total)) return "0";
  return fmt::format("{} ({:.3g}%)", seconds_text(seconds), 100 * seconds / total);
}

/// The number of characters, as a terminal shows them: µ is one.
std::size_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

std::string breakdown_table(const Breakdown& breakdown) {
  constexpr std::size_t most = 16;
  std::vector<std::vector<std::string>> rows{{""}};
  for (const NamedPart& part : named_parts) rows[0].push_back(part.name);
  auto add = [&](const std::string& name, const TimeParts& parts) {
    std::vector<std::string>& row = rows.emplace_back(1, name);
    for (const NamedPart& part : named_parts)
      row.push_back(seconds_and_share(parts.*part.seconds, parts.total()));
  };
  const std::size_t ranks = breakdown.ranks.size();
  for (std::size_t rank = 0; rank < ranks && ranks <= most; ++rank)
    add(fmt::format("rank {}", rank), breakdown.ranks[rank]);
  add(ranks == 1 ? "1 rank" : fmt::format("all {} ranks", ranks), breakdown.all());

  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(row[i]));
  std::string text;
  for (const auto& row : rows) {
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

nlohmann::json to_json(const CriticalPath& path) {
  nlohmann::json result;
  for (const NamedPart& part : named_parts) result[part.key] = path.time.*part.seconds;
  result["computations"] = path.computations;
  result["messages"] = path.messages;
  result["collectives"] = path.collectives;
  result["ranks"] = path.ranks;
  return result;
}

}  // namespace plangrad::examples
