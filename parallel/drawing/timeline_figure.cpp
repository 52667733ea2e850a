// The figure of a timeline in SVG. All that moves with time is in the inner <svg class="view">, so
// that a page can zoom it by one transform; colours are attributes, which a page's style may
// override. Not here: colours and legend (timeline_legend.cpp).
// Chapter 06.
#include "parallel/drawing/timeline_figure.h"

#include <algorithm>
#include <map>

#include "parallel/drawing/figure.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

constexpr double compute_height = 26, slot_height = 5, row_gap = 9, axis_height = 24;
constexpr double repeated_height = 16, alive_height = 44;
constexpr double part_height = 14;            // of the words above the parts of an endless plan
constexpr const char* bar_color = "#8b5cf6";  // legible on light and on dark
constexpr int most_slots = 4;  // messages under way at once that a lane shows side by side

class TimelineFigure {
 public:
  TimelineFigure(const Timeline& timeline, const FigureLayout& layout)
      : timeline_(timeline),
        layout_(layout),
        slots_(message_slots(timeline)),
        repeated_(recomputations(timeline)),
        critical_(timeline.records.size(), false) {
    for (int record : layout.path) critical_.at(record) = true;
    left_ = left_margin(layout.ranks);
    width_ = layout.seconds * layout.pixels_per_second;
    legend_ = legend(timeline, left_ + width_ - 12, !layout.path.empty());
    several_stages_ = has_several_stages(timeline);
    place_rows();
    if (layout.alive) add_alive();
    cell_ = layout.cell_seconds * layout.pixels_per_second;
  }

  std::string svg() {
    add_axis();
    for (std::size_t i = 0; i < timeline_.records.size(); ++i)
      if (is_drawn(timeline_.records[i])) add(timeline_.records[i], i);
    add_bars();
    const std::string note = cut_note();
    height_ = bottom_ + axis_height + (note.empty() ? 0 : 20);
    return opening_tag() + paper(0, 0, left_ + width_ + right_margin, height_) +
           group("legend", " transform=\"translate(6 6)\"", legend_.svg) +
           group("lanes", "", lanes_) + view() + note + "</svg>\n";
  }

 private:
  std::string opening_tag() const {
    const double width = left_ + width_ + right_margin;
    const std::string for_script = markup(
        R"( tabindex="0" data-scale="{}" data-per-second="{}" data-left="{}" data-width="{}" )"
        R"(data-top="{}" data-bottom="{}" data-cell="{}")",
        format("{}", layout_.pixels_per_second),  // with all its digits
        time_unit(layout_.seconds).per_second, left_, width_, top_[0], bottom_, cell_);
    return markup(R"(<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" )"
                  R"(aria-label="Timeline of {} ranks" width="{}" height="{}" viewBox="0 0 {} {}" )"
                  R"(font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" )"
                  R"(font-size="11"{}>)"
                  "\n{}",
                  timeline_.ranks, width, height_, width, height_,
                  layout_.zoomable ? for_script : "", dark_style);
  }

  /// The part that moves with time and is cut at the axes' ends.
  std::string view() const {
    std::string lines = cell_ > 6 ? "1" : "0";  // between cells
    return markup(
        "<svg class=\"view\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\">\n{}{}{}</svg>\n", left_,
        width_ + 2, height_, group("axis", "", axis_),
        group("cells", " stroke=\"#fff\" stroke-width=\"" + lines + "\"", cells_ + marks_),
        group("labels", " text-anchor=\"middle\" pointer-events=\"none\"", labels_));
  }

  static std::string group(const char* name, const std::string& attributes,
                           const std::string& content) {
    return format("<g class=\"{}\"{}>\n{}</g>\n", name, attributes, content);
  }

  bool is_drawn(const Record& record) const {
    return record.rank < layout_.ranks && record.start <= layout_.seconds &&
           !drops(record.instruction);  // which takes no time
  }
  double x(double seconds) const { return seconds * layout_.pixels_per_second; }

  void place_rows() {
    std::vector<int> used(layout_.ranks, 0);
    for (std::size_t i = 0; i < timeline_.records.size(); ++i) {
      const Record& record = timeline_.records[i];
      if (!is_drawn(record)) continue;
      bool message = record.lane == Lane::message;
      if (message)
        used[record.rank] = std::max(used[record.rank], std::min(slots_[i] + 1, most_slots));
      else if (!makes_version(record.instruction))
        measure_label(record.instruction);
    }
    bottom_ = 14 + legend_.height + (timeline_.bars.empty() ? 0 : part_height);
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      top_.push_back(bottom_);
      const double height = used[rank] * slot_height;
      lanes_ += ink(6, bottom_ + 17, format("rank {}", rank)) +
                lane("lane", bottom_, compute_height, "#eceff3") +
                lane("lane faint", bottom_ + compute_height, height, "#f5f7f9") + '\n';
      bottom_ += compute_height + height + row_gap;
    }
  }

  std::string lane(const char* name, double top, double height, const char* color) const {
    return markup(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", name,
                  left_, top, width_, height, color);
  }

  /// Adds a lane of the activations alive on all ranks, as bars over time.
  void add_alive() {
    const std::vector<Level> levels = activations_alive(timeline_);
    int most = 0;
    for (const Level& level : levels) most = std::max(most, level.count);
    lanes_ += ink(6, bottom_ + 11, format("{} alive", most)) +
              lane("lane faint", bottom_, alive_height, "#f5f7f9") + '\n';
    for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
      const auto [start, count] = levels[i];
      if (count == 0 || start > layout_.seconds) continue;
      const double seconds = levels[i + 1].seconds - start, high = alive_height * count / most;
      cells_ += markup(
          R"(<rect class="alive" x="{}" y="{}" width="{}" height="{}" fill="#5c7c8a" )"
          R"(stroke="none" shape-rendering="crispEdges">)"
          "<title>{} activations alive on all ranks, by stage and microbatch\nfrom {}, for {}"
          "</title></rect>\n",
          x(start), bottom_ + alive_height - high, x(seconds), high, count, seconds_text(start),
          seconds_text(seconds));
    }
    bottom_ += alive_height + row_gap;
  }

  void measure_label(const Instruction& instruction) {
    longest_full_ = std::max(longest_full_, short_label(instruction).size());
    longest_micro_ = std::max(longest_micro_, std::to_string(instruction.micro).size());
  }

  void add_axis() {
    TimeUnit unit = time_unit(layout_.seconds);
    double end = layout_.seconds * unit.per_second;
    for (double tick : ticks(0, end, std::max(2, static_cast<int>(width_ / 90)))) {
      double at = x(tick / unit.per_second);
      axis_ += markup(R"(<path class="grid" d="M{} {}V{}" stroke="#d5dbe3"/>)", at, top_[0],
                      bottom_ + 6);
      const std::string text = format("{:.6g}", tick);
      bool cut = at + 4 + text_width(text) > width_;
      axis_ += ink(cut ? at - 4 : at + 4, bottom_ + 12, text, cut ? R"( text-anchor="end")" : "");
    }
    lanes_ += ink(6, bottom_ + 12, unit.name);
  }

  void add(const Record& record, std::size_t i) {
    const Instruction& instruction = record.instruction;
    double from = x(record.start), wide = x(record.end) - from, top = top_[record.rank];
    if (record.lane == Lane::message) {
      double y = top + compute_height + slot_height * std::min(slots_[i], most_slots - 1);
      std::string color = message_color(message_kind(instruction));
      add_outlined("message", from, wide, y + 1, slot_height - 1, color, record);
      if (critical_[i]) add_outline(from, wide, y, slot_height + 1);
    } else if (makes_version(instruction)) {
      add_outlined("step", from, wide, top, compute_height, cell_color(instruction).fill, record);
    } else {
      CellColor color = cell_color(instruction);
      double height = repeated_[i] ? repeated_height : compute_height;
      top += compute_height - height;
      cells_ += markup(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}">{}</rect>)"
                       "\n",
                       from, top, wide, height, color.fill, title(record, repeated_[i]));
      add_label(instruction, from, wide, top + height / 2 + 4, color);
      if (critical_[i]) underline(from, wide, top + height);
    }
  }

  /// Marks a computation of the critical path.
  void underline(double from, double wide, double bottom) {
    marks_ += markup(R"(<rect class="ink critical" x="{}" y="{}" width="{}" height="5" )"
                     R"(fill="#1f2933" pointer-events="none"/>)"
                     "\n",
                     from, bottom - 4, wide);
  }

  /// Marks a message of the critical path.
  void add_outline(double from, double wide, double top, double high) {
    marks_ += markup(R"(<path class="mark critical" d="M{} {}h{}v{}h-{}z" fill="none" )"
                     R"(stroke="#1f2933" stroke-width="1.5" pointer-events="none"/>)"
                     "\n",
                     from, top, wide, high, wide);
  }

  /// Adds a shape that is visible even if it takes no time.
  void add_outlined(const char* kind, double from, double wide, double top, double high,
                    const std::string& color, const Record& record) {
    bool received = receives(record.instruction);
    marks_ += markup(R"(<path class="{}" d="M{} {}h{}v{}h-{}z" fill="{}" stroke="{}" )"
                     R"(stroke-width="2"{}>{}</path>)"
                     "\n",
                     kind, from, top, wide, high, wide, color, color,
                     received ? R"( opacity=".5")" : "", title(record, false));
  }

  /// Marks where the bodies of an endless plan begin and end on each rank.
  void add_bars() {
    constexpr const char* parts[] = {"head", "body", "body", "tail"};
    for (int rank = 0; rank < layout_.ranks && !timeline_.bars.empty(); ++rank) {
      double before = 0;
      for (std::size_t bar = 0; bar < timeline_.bars[rank].size(); ++bar) {
        const double at = timeline_.bars[rank][bar];
        if (at > layout_.seconds) break;
        marks_ += markup(R"(<path class="repeat" d="M{} {}v{}" stroke="{}" stroke-width="2" )"
                         R"(stroke-dasharray="4 2"><title>rank {}, between {} and {}</title>)"
                         "</path>\n",
                         x(at), top_[rank] - row_gap, compute_height + 1.5 * row_gap, bar_color,
                         rank, parts[bar], parts[bar + 1]);
        if (rank == 0) add_part(parts[bar], before, at);
        before = at;
      }
      if (rank == 0) add_part(parts[timeline_.bars[rank].size()], before, layout_.seconds);
    }
  }

  /// Names a part of an endless plan above the first rank, if there is room.
  void add_part(const char* part, double from, double to) {
    if (layout_.zoomable || x(to - from) < text_width(part)) return;
    labels_ += markup(R"(<text x="{}" y="{}" fill="{}">{}</text>)"
                      "\n",
                      x(from + to) / 2, top_[0] - row_gap, bar_color, part);
  }

  /// The largest font size at which `characters` fit into `wide` pixels; 0 if none does.
  static int font_size(double wide, std::size_t characters) {
    for (int size : {11, 8})
      if (wide >= label_width(size, characters)) return size;
    return 0;
  }

  /// Adds the microbatch and, if a rank has several stages and there is room, the stage before it.
  /// The figure's longest label decides about room, so that cells of one width have equal labels.
  void add_label(const Instruction& instruction, double from, double wide, double baseline,
                 const CellColor& color) {
    bool full = several_stages_ && (layout_.zoomable || font_size(wide, longest_full_) == 11);
    int size = font_size(wide, full ? longest_full_ : longest_micro_);
    if (size == 0 && !layout_.zoomable) return;
    std::string attributes = size == 8 ? R"( font-size="8")" : "";
    if (layout_.zoomable)
      attributes += markup(R"( data-x="{}" data-w="{}" visibility="{}")", from + wide / 2, wide,
                           size > 0 ? "visible" : "hidden");
    labels_ += markup(R"(<text x="{}" y="{}" fill="{}"{}>{}</text>)"
                      "\n",
                      from + wide / 2, baseline, color.text, attributes,
                      full ? short_label(instruction) : std::to_string(instruction.micro));
  }

  std::string title(const Record& record, bool repeated) const {
    std::string bytes =
        record.bytes > 0 ? ", " + bytes_text(static_cast<double>(record.bytes)) + " sent" : "";
    return format("<title>rank {}: {}\n{}{}\nfrom {}, takes {}{}</title>", record.rank,
                  escape(print(record.instruction)), escape(describe(record.instruction)),
                  repeated ? ", recomputed" : "", seconds_text(record.start),
                  seconds_text(record.end - record.start), bytes);
  }

  std::string cut_note() const {
    std::string note;
    if (layout_.ranks < timeline_.ranks)
      note += format("the first {} of {} ranks", layout_.ranks, timeline_.ranks);
    if (layout_.seconds < timeline_.makespan() * 0.999999)
      note += format("{}the first {} of {}", note.empty() ? "" : ", and ",
                     seconds_text(layout_.seconds), seconds_text(timeline_.makespan()));
    if (note.empty()) return "";
    return markup("<text class=\"ink note\" x=\"6\" y=\"{}\">Drawn: {}.</text>\n",
                  bottom_ + axis_height + 10, note);
  }

  const Timeline& timeline_;
  const FigureLayout& layout_;
  std::vector<int> slots_;
  std::vector<bool> repeated_, critical_;
  double left_ = 0, width_ = 0, bottom_ = 0, height_ = 0, cell_ = 0;
  Legend legend_;
  bool several_stages_ = false;
  std::size_t longest_full_ = 0, longest_micro_ = 0;  // labels, in characters
  std::vector<double> top_;                           // of each rank
  std::string lanes_, axis_, cells_, labels_;
  std::string marks_;  // steps and messages, above the cells
};

}  // namespace

double left_margin(int ranks) {
  return 52 + 7.0 * static_cast<double>(std::to_string(ranks - 1).size());
}

bool has_several_stages(const Timeline& timeline) {
  std::map<int, int> stages;  // by rank: its first
  return std::any_of(timeline.records.begin(), timeline.records.end(), [&](const Record& record) {
    const Instruction& x = record.instruction;
    return record.lane == Lane::compute && !makes_version(x) && !drops(x) &&
           stages.emplace(record.rank, x.stage).first->second != x.stage;
  });
}

double label_width(double font_size, std::size_t characters) {
  return 0.6 * font_size * static_cast<double>(characters) + font_size / 4;
}

std::string timeline_figure(const Timeline& timeline, const FigureLayout& layout) {
  return TimelineFigure(timeline, layout).svg();
}

}  // namespace paragrad::parallel
