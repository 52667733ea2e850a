// A timeline as a table of text, as terminals and chapters show it.
// Not here: messages; see draw_svg.cpp. Chapter 06.
#include <cmath>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
static bool is_shown(const Record& record) {
  return record.lane == Lane::compute && record.end > record.start;
}

/// "2F5": an instruction without its version.
static std::string short_label(const Instruction& instruction) {
  const std::string text = print(instruction);
  return text.substr(0, text.rfind('v'));
}

static double shortest_computation(const Timeline& timeline) {
  double shortest = timeline.makespan();
  for (const Record& record : timeline.records)
    if (is_shown(record) && !makes_version(record.instruction))
      shortest = std::min(shortest, record.end - record.start);
  return shortest;
}

std::string draw_text(const Timeline& timeline, int columns) {
  check_drawable(timeline);
  PG_CHECK(columns > 0, "draw: expected at least 1 column, got ", columns);
  const double unit = shortest_computation(timeline);
  auto column = [&](double seconds) { return std::lround(seconds / unit); };
  const long all = std::max(1l, column(timeline.makespan())), shown = std::min<long>(all, columns);

  // An empty cell is idle.
  std::vector<std::vector<std::string>> rows(timeline.ranks, std::vector<std::string>(shown));
  std::size_t width = 3;
  const std::vector<bool> repeated = recomputations(timeline);
  bool again = false;
  for (std::size_t i = 0; i < repeated.size(); ++i) {
    const Record& record = timeline.records[i];
    if (!is_shown(record)) continue;
    std::string label = short_label(record.instruction);
    if (repeated[i]) label.replace(label.find('F'), 1, "f");
    again |= repeated[i];
    long first = column(record.start), last = column(record.end);
    if (!makes_version(record.instruction)) last = std::max(last, first + 1);
    for (long c = first; c < std::min(last, shown); ++c) {
      rows[record.rank][c] = c == first ? label : "-";
      width = std::max(width, rows[record.rank][c].size());
    }
  }

  auto is_bar = [&](int rank, long c) {
    return !timeline.bars.empty() && std::ranges::any_of(timeline.bars[rank], [&](double seconds) {
      return column(seconds) == c;
    });
  };
  std::string text;
  const std::size_t digits = std::to_string(timeline.ranks - 1).size();
  for (int rank = 0; rank < timeline.ranks; ++rank) {
    text += fmt::format("rank {:<{}} ", rank, digits);
    for (long c = 0; c < shown; ++c) {
      const std::string& cell = rows[rank][c];
      bool filled = cell.empty() || cell == "-";
      text += (is_bar(rank, c) ? '|' : ' ') + (filled ? std::string(width, cell.empty() ? '.' : '-')
                                                      : fmt::format("{:<{}}", cell, width));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    if (shown == all && is_bar(rank, all)) text += " |";
    text += '\n';
  }
  if (again) text += "f: a forward that runs again, since its activations were dropped\n";
  if (all > shown)
    text += fmt::format("and {} more columns, of {} each\n", all - shown, seconds_text(unit));
  return text;
}

}  // namespace plangrad::parallel
