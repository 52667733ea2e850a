// What stands in, between and above the cells of a timeline's figure: labels, lines of messages,
// the critical path, the bars of endless plans, a fault. A label has a line for each number, so
// that narrow cells can show several.
// Not here: cells and rows (timeline_figure.cpp), colours (timeline_legend.cpp). Chapter 06.
#include "parallel/drawing/timeline_figure.h"

#include <set>

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

constexpr int label_pitch = 11;

bool is_labelled(const Record& record) { return uses_weights(record.instruction); }

std::size_t digits_of(int value) { return std::to_string(value).size(); }

constexpr std::size_t most_lines = 200;

/// The largest font size at which `characters` fit into `wide` pixels; 0 if none does.
int label_size(double wide, std::size_t characters) {
  for (int size : {11, 8})
    if (wide >= label_width(size, characters)) return size;
  return 0;
}

}  // namespace

CellLabels::CellLabels(const Timeline& timeline, const FigureLayout& layout) : layout_(layout) {
  several_stages_ = std::ranges::any_of(computed_stages(timeline),
                                        [](const auto& of_rank) { return of_rank.size() > 1; });
  for (const Record& record : timeline.records) {
    if (!is_labelled(record)) continue;
    const Instruction& x = record.instruction;
    longest_micro_ = std::max(longest_micro_, digits_of(x.micro));
    longest_stage_ = std::max(longest_stage_, 1 + digits_of(x.stage));
    longest_version_ = std::max(longest_version_, 1 + digits_of(x.version));
  }
  const bool versions = has_several_versions(timeline);
  for (int rank = 0; rank < layout.ranks; ++rank)
    rows_.push_back({several_stages_ && has_room(timeline, rank, longest_stage_),
                     versions && has_room(timeline, rank, longest_version_)});
}

/// Whether all cells of a rank that show their microbatch have room for `characters`.
bool CellLabels::has_room(const Timeline& timeline, int rank, std::size_t characters) const {
  return std::ranges::all_of(timeline.records, [&](const Record& record) {
    if (record.rank != rank || !is_labelled(record) || record.start > layout_.seconds) return true;
    const double wide = (record.end - record.start) * layout_.pixels_per_second;
    return label_size(wide, longest_micro_) == 0 || label_size(wide, characters) == 11;
  });
}

double CellLabels::cell_height() const {
  int lines = 1;
  for (const Lines& row : rows_) lines = std::max(lines, 1 + row.stage + row.version);
  return lines == 1 ? 26 : 7 + label_pitch * lines;
}

std::string CellLabels::explanation() const {
  bool stage = false, bar = false, version = false;
  for (const Lines& row : rows_) {
    stage |= row.stage;
    bar |= several_stages_ && !row.stage;
    version |= row.version;
  }
  if (!stage && !bar && !version) return "";
  return std::string("number: microbatch") + (stage ? ", s: stage" : "") +
         (version ? ", v: version" : "") + (bar ? ", white bar: which of the rank's stages" : "");
}

std::string CellLabels::svg(const Record& record, double from, double wide, double top,
                            double height, bool low) const {
  if (!is_labelled(record)) return "";
  const int size = label_size(wide, longest_micro_);
  if (size == 0) return "";
  const Instruction& x = record.instruction;
  std::vector<std::string> lines{std::to_string(x.micro)};
  if (!low && rows_[record.rank].stage) lines.push_back("s" + std::to_string(x.stage));
  if (!low && rows_[record.rank].version) lines.push_back("v" + std::to_string(x.version));
  double baseline =
      top + height / 2 + 4 - label_pitch * (static_cast<double>(lines.size()) - 1) / 2;
  std::string svg;
  for (const std::string& words : lines) {
    svg += markup(R"(<text x="{}" y="{}" fill="{}"{}>{}</text>)"
                  "\n",
                  from + wide / 2, baseline, cell_color(x).text,
                  size == 8 ? R"( font-size="8")" : "", words);
    baseline += label_pitch;
  }
  return svg;
}

bool has_several_versions(const Timeline& timeline) {
  std::set<int> versions;
  for (const Record& record : timeline.records)
    if (is_labelled(record)) versions.insert(record.instruction.version);
  return versions.size() > 1;
}

double label_width(double font_size, std::size_t characters) {
  return 0.6 * font_size * static_cast<double>(characters) + font_size / 4;
}

std::string message_lines(const Timeline& timeline, const FigureLayout& layout,
                          const TimelineGrid& grid) {
  std::string lines;
  std::size_t count = 0;
  const std::vector<int> others = other_ends(timeline);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (others[i] < 0 || sends(timeline.records[i].instruction)) continue;
    const Record &sent = timeline.records[others[i]], &got = timeline.records[i];
    if (std::max(sent.rank, got.rank) >= layout.ranks || got.end > layout.seconds) continue;
    if (++count > most_lines) return "";
    const bool down = got.rank > sent.rank;
    lines += markup(R"(<path {} d="M{} {}L{} {}"/>)"
                    "\n",
                    in_color(color_name(sent.instruction)), grid.x(sent.start),
                    grid.top[sent.rank] + (down ? grid.cell : 0), grid.x(got.end),
                    grid.top[got.rank] + (down ? 0 : grid.cell));
  }
  return lines;
}

std::string underline(double from, double wide, double bottom) {
  return markup(R"(<rect class="ink critical" x="{}" y="{}" width="{}" height="5" )"
                R"(fill="#1f2933" pointer-events="none"/>)"
                "\n",
                from, bottom - 4, wide);
}

std::string outline(double from, double wide, double top, double high) {
  return markup(R"(<path class="mark critical" d="M{} {}h{}v{}h-{}z" fill="none" )"
                R"(stroke="#1f2933" stroke-width="1.5" pointer-events="none"/>)"
                "\n",
                from, top, wide, high, wide);
}

RepeatMarks repeat_bars(const Timeline& timeline, const FigureLayout& layout,
                        const TimelineGrid& grid) {
  constexpr const char* parts[] = {"head", "body", "body", "tail"};
  RepeatMarks result;
  auto name_part = [&](const char* part, double from, double to) {  // if there is room
    if (grid.x(to - from) < text_width(part)) return;
    result.words += markup(R"(<text x="{}" y="{}" fill="{}">{}</text>)"
                           "\n",
                           grid.x(from + to) / 2, grid.top[0] - 9, color("bar").light, part);
  };
  for (int rank = 0; rank < layout.ranks && !timeline.bars.empty(); ++rank) {
    double before = 0;
    for (std::size_t bar = 0; bar < timeline.bars[rank].size(); ++bar) {
      const double at = timeline.bars[rank][bar];
      if (at > layout.seconds) break;
      result.marks += markup(R"(<path class="repeat" d="M{} {}v{}" stroke="{}" stroke-width="2" )"
                             R"(stroke-dasharray="4 2"><title>rank {}, between {} and {}</title>)"
                             "</path>\n",
                             grid.x(at), grid.top[rank] - 9, grid.cell + 13.5, color("bar").light,
                             rank, parts[bar], parts[bar + 1]);
      if (rank == 0) name_part(parts[bar], before, at);
      before = at;
    }
    if (rank == 0) name_part(parts[timeline.bars[rank].size()], before, layout.seconds);
  }
  return result;
}

std::string fault_mark(const Fault& fault, const TimelineGrid& grid) {
  const Record& record = fault.record;
  const double from = grid.x(record.start), wide = grid.x(record.end) - from;
  const double top = grid.top.at(record.rank);
  return markup(
      R"(<rect class="fault" x="{}" y="{}" width="{}" height="{}" {}><title>{}</title></rect>)"
      R"(<path d="M{} {}l{} {}m0 -{}l-{} {}" stroke="#fff" stroke-width="2.5"/>)"
      "\n",
      from, top, wide, grid.cell, in_color("fault"), escape(fault.sentence), from + wide / 2 - 5,
      top + grid.cell / 2 - 5, 10.0, 10.0, 10.0, 10.0, 10.0);
}

std::string stage_mark(const std::vector<int>& stages_of_rank, int stage, double from, double wide,
                       double bottom) {
  const auto count = static_cast<double>(stages_of_rank.size());
  if (count < 2) return "";
  const auto place = std::ranges::find(stages_of_rank, stage) - stages_of_rank.begin();
  return markup(R"(<rect x="{}" y="{}" width="{}" height="2.5" fill="#fff" stroke="#10161d" )"
                R"(stroke-width="0.4" pointer-events="none"/>)"
                "\n",
                from + wide * static_cast<double>(place) / count, bottom - 3, wide / count);
}

std::vector<std::vector<int>> computed_stages(const Timeline& timeline) {
  std::vector<std::set<int>> stages(timeline.ranks);
  for (const Record& record : timeline.records)
    if (uses_weights(record.instruction)) stages[record.rank].insert(record.instruction.stage);
  std::vector<std::vector<int>> result;
  for (const std::set<int>& each : stages) result.emplace_back(each.begin(), each.end());
  return result;
}

std::vector<double> idle_of_ranks(const Timeline& timeline) {
  const double makespan = timeline.makespan();
  std::vector<double> idle(timeline.ranks, 1);
  for (const Record& record : timeline.records)
    if (record.lane == Lane::compute && !drops(record.instruction) && makespan > 0)
      idle[record.rank] -= (record.end - record.start) / makespan;
  return idle;
}

}  // namespace plangrad::parallel
