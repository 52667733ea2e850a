// The figure of a timeline in SVG. All that moves with time is in the inner <svg class="view">, so
// that a page can zoom it by one transform; colours are attributes, which a page's style may
// override. Not here: labels and what stands between and above the cells
// (timeline_cells.cpp), legends (timeline_legend.cpp). Chapter 06.
#include "parallel/drawing/timeline_figure.h"

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

constexpr double slot_height = 5, row_gap = 9, axis_height = 24, part_height = 14,
                 alive_height = 44;
std::string whole_percent(double share) { return fmt::format("{:.0f}%", std::abs(100 * share)); }

constexpr int most_slots = 4;  // messages under way at once that a lane shows side by side

class TimelineFigure {
 public:
  TimelineFigure(const Timeline& timeline, const FigureLayout& layout)
      : timeline_(timeline),
        layout_(layout),
        slots_(message_slots(timeline)),
        repeated_(recomputations(timeline)),
        critical_(timeline.records.size(), false),
        labels_of_(timeline, layout),
        stages_(computed_stages(timeline)),
        lines_alone_(std::ranges::none_of(timeline.records, [](const Record& record) {
          return travels(record.instruction) && record.end > record.start;
        })) {
    for (int record : layout.shown.path) critical_.at(record) = true;
    grid_ = {layout.pixels_per_second,
             left_margin(layout.ranks),
             layout.seconds * layout.pixels_per_second,
             labels_of_.cell_height(),
             {}};
    legend_ = legend(timeline, grid_.left + grid_.width + right_margin - 12, layout.shown,
                     labels_of_.explanation());
    place_rows();
    if (layout.shown.alive) add_alive();
    cell_ = layout.cell_seconds * layout.pixels_per_second;
  }

  std::string svg() {
    add_axis();
    behind_ = message_lines(timeline_, layout_, grid_);
    for (std::size_t i = 0; i < timeline_.records.size(); ++i)
      if (is_drawn(timeline_.records[i])) add(timeline_.records[i], i);
    if (layout_.shown.fault) marks_ += fault_mark(*layout_.shown.fault, grid_);
    const RepeatMarks bars = repeat_bars(timeline_, layout_, grid_);
    marks_ += bars.marks;
    labels_ += bars.words;
    const std::string below = notes_below();
    return opening_tag() + paper(0, 0, grid_.left + grid_.width + right_margin, height_) +
           group("legend", " transform=\"translate(6 6)\"", legend_.svg) +
           group("lanes", "", lanes_) + view() + below + "</svg>\n";
  }

 private:
  std::string opening_tag() const {
    const double width = grid_.left + grid_.width + right_margin;
    return markup(R"(<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" )"
                  R"(aria-label="Timeline of {}, idle for {} of their time" )"
                  R"(width="{}" height="{}" viewBox="0 0 {} {}" )"
                  R"(font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" )"
                  R"(font-size="11">)"
                  "\n{}{}",
                  counted(timeline_.ranks, "rank"), whole_percent(timeline_.bubble()), width,
                  height_, width, height_, figure_style(), idle_pattern());
  }

  /// The part that moves with time and is cut at the axes' ends.
  std::string view() const {
    std::string lines = cell_ > 6 ? "1" : "0";  // between cells
    return markup(
        "<svg class=\"view\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\">\n{}{}{}{}</svg>\n",
        grid_.left, grid_.width + 2, height_, group("axis", "", axis_),
        group("lines", " fill=\"none\"", behind_),
        group("cells", " stroke=\"#fff\" stroke-width=\"" + lines + "\"", cells_ + marks_),
        group("labels", " text-anchor=\"middle\" pointer-events=\"none\"", labels_));
  }

  bool is_drawn(const Record& record) const {
    return record.rank < layout_.ranks && record.start <= layout_.seconds &&
           !drops(record.instruction);  // which takes no time
  }
  bool has_strip(const Record& record) const {
    return record.lane == Lane::message && !(lines_alone_ && travels(record.instruction));
  }

  void place_rows() {
    std::vector<int> used(layout_.ranks, 0);
    for (std::size_t i = 0; i < timeline_.records.size(); ++i)
      if (const Record& record = timeline_.records[i]; is_drawn(record) && has_strip(record))
        used[record.rank] = std::max(used[record.rank], std::min(slots_[i] + 1, most_slots));
    const std::vector<double> idle = idle_of_ranks(timeline_);
    const double until = std::min(grid_.width, grid_.x(timeline_.makespan()));
    bottom_ = 16 + legend_.height + (timeline_.bars.empty() ? 0 : part_height);
    lanes_ += ink(grid_.left + grid_.width + 6, bottom_ - 4, "idle");
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      grid_.top.push_back(bottom_);
      const double height = used[rank] * slot_height;
      lanes_ += ink(6, bottom_ + grid_.cell / 2 + 4, fmt::format("rank {}", rank)) +
                ink(grid_.left + grid_.width + 6, bottom_ + grid_.cell / 2 + 4,
                    whole_percent(idle[rank])) +
                lane("lane", bottom_, grid_.cell, grid_.width, "#edf0f4") +
                lane("idle", bottom_, grid_.cell, until, "url(#idle)") +
                lane("lane faint", bottom_ + grid_.cell, height, grid_.width, "#f5f7f9") + '\n';
      bottom_ += grid_.cell + height;
      add_lanes(rank);
      bottom_ += row_gap;
    }
  }

  /// Adds what a rank holds, below its messages.
  void add_lanes(int rank) {
    const HeldLanes held = held_lanes(layout_.shown.held, rank, layout_, bottom_ + 2);
    if (held.height == 0) return;
    lanes_ += lane("lane faint", bottom_, held.height + 4, grid_.width, "#f5f7f9");
    cells_ += held.cells;
    labels_ += held.labels;
    bottom_ += held.height + 4;
  }

  std::string lane(const char* name, double top, double height, double width,
                   const char* fill) const {
    if (height == 0) return "";
    return markup(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", name,
                  grid_.left, top, width, height, fill);
  }

  /// Adds a lane of the activations alive on all ranks, as bars over time.
  void add_alive() {
    const std::vector<Level> levels = activations_alive(timeline_);
    const int most = std::ranges::max_element(levels, {}, &Level::count)->count;
    lanes_ += ink(6, bottom_ + 11, fmt::format("{} alive", most)) +
              lane("lane faint", bottom_, alive_height, grid_.width, "#f5f7f9") + '\n';
    cells_ += alive_bars(levels, most, layout_, bottom_, alive_height);
    bottom_ += alive_height + row_gap;
  }

  void add_axis() {
    TimeUnit unit = time_unit(layout_.seconds);
    double end = layout_.seconds * unit.per_second;
    for (double tick : ticks(0, end, std::max(2, static_cast<int>(grid_.width / 90)))) {
      double at = grid_.x(tick / unit.per_second);
      axis_ += markup(R"(<path class="grid" d="M{} {}V{}" stroke="#d5dbe3"/>)", at, grid_.top[0],
                      bottom_ + 6);
      const std::string text = fmt::format("{:.6g}", tick);
      bool cut = at + 4 + text_width(text) > grid_.width;
      axis_ += ink(cut ? at - 4 : at + 4, bottom_ + 12, text, cut ? R"( text-anchor="end")" : "");
    }
    lanes_ += ink(6, bottom_ + 12, unit.name);
  }

  void add(const Record& record, std::size_t i) {
    const Instruction& x = record.instruction;
    const double from = grid_.x(record.start), wide = grid_.x(record.end) - from;
    double top = grid_.top[record.rank];
    if (has_strip(record)) {
      const double y = top + grid_.cell + slot_height * std::min(slots_[i], most_slots - 1);
      add_outlined("message", from, wide, y + 1, slot_height - 1, record);
      if (critical_[i]) marks_ += outline(from, wide, y, slot_height + 1);
    } else if (makes_version(x)) {
      add_outlined("step", from, wide, top, grid_.cell, record);
    } else if (record.lane == Lane::compute) {
      const double height = repeated_[i] ? grid_.cell - 10 : grid_.cell;
      top += grid_.cell - height;
      cells_ += markup(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}">{}</rect>)"
                       "\n",
                       from, top, wide, height, cell_color(x).fill, title(record, repeated_[i]));
      if (!labels_of_.names_stages(record.rank))
        marks_ += stage_mark(stages_.at(record.rank), x.stage, from, wide, top + height);
      labels_ += labels_of_.svg(record, from, wide, top, height, repeated_[i]);
      if (critical_[i]) marks_ += underline(from, wide, top + height);
    }
  }

  /// Adds a shape that is visible even if it takes no time.
  void add_outlined(const char* kind, double from, double wide, double top, double high,
                    const Record& record) {
    marks_ += markup(R"(<path class="{}" d="M{} {}h{}v{}h-{}z" {} stroke-width="2"{}>{}</path>)"
                     "\n",
                     kind, from, top, wide, high, wide, in_color(color_name(record.instruction)),
                     receives(record.instruction) ? R"( opacity=".5")" : "", title(record, false));
  }

  std::string title(const Record& record, bool repeated) const {
    std::string bytes =
        record.bytes > 0 ? ", " + bytes_text(static_cast<double>(record.bytes)) + " sent" : "";
    return fmt::format("<title>rank {}: {}\n{}{}\nfrom {}, takes {}{}</title>", record.rank,
                       escape(print(record.instruction)), escape(describe(record.instruction)),
                       repeated ? ", recomputed" : "", seconds_text(record.start),
                       seconds_text(record.end - record.start), bytes);
  }

  /// Says below the figure what is cut and what is wrong, and sets the figure's height.
  std::string notes_below() {
    std::string note;
    if (layout_.ranks < timeline_.ranks)
      note += fmt::format("the first {} of {} ranks", layout_.ranks, timeline_.ranks);
    if (layout_.seconds < timeline_.makespan() * 0.999999)
      note += fmt::format("{}the first {} of {}", note.empty() ? "" : ", and ",
                          seconds_text(layout_.seconds), seconds_text(timeline_.makespan()));
    std::vector<std::string> lines;
    if (!note.empty()) lines.push_back(fmt::format("Drawn: {}.", note));
    if (layout_.shown.fault) {
      const double wide = grid_.left + grid_.width + right_margin - 12;
      for (std::string& line : wrapped(layout_.shown.fault->sentence, wide))
        lines.push_back(std::move(line));
    }
    double y = bottom_ + axis_height + 10;
    std::string svg;
    for (const std::string& line : lines) {
      svg += ink(6, y, line, R"( xml:space="preserve")") + '\n';
      y += 16;
    }
    height_ =
        bottom_ + axis_height + (lines.empty() ? 0 : 16.0 * static_cast<double>(lines.size()) + 4);
    return svg;
  }

  const Timeline& timeline_;
  const FigureLayout& layout_;
  std::vector<int> slots_;
  std::vector<bool> repeated_, critical_;
  CellLabels labels_of_;
  std::vector<std::vector<int>> stages_;  // by rank
  bool lines_alone_;                      // messages between two ranks take no time
  TimelineGrid grid_;
  double bottom_ = 0, height_ = 0, cell_ = 0;
  Legend legend_;
  std::string lanes_, axis_, behind_, cells_, labels_;
  std::string marks_;  // steps and messages, above the cells
};

}  // namespace

double left_margin(int ranks) {
  return 52 + 7.0 * static_cast<double>(std::to_string(ranks - 1).size());
}

std::string timeline_figure(const Timeline& timeline, const FigureLayout& layout) {
  return TimelineFigure(timeline, layout).svg();
}

}  // namespace plangrad::parallel
