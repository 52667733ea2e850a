// The colours of timelines, and the legend that explains them.
// Not here: the timeline itself (timeline_figure.cpp).
// Chapter 06.
#include <algorithm>
#include <set>
#include <vector>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/palette.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {
namespace {

/// The kinds of messages, in the order of the legend.
constexpr const char* message_kinds[] = {"activations",   "activation gradients",
                                         "gradient sums", "reductions",
                                         "weights",       "gathers",
                                         "norms",         "turns"};

/// The kinds of computations, in the order of the legend.
constexpr Instruction computation_kinds[] = {{.op = Op::forward},
                                             {.op = Op::backward},
                                             {.op = Op::backward, .what = Value::input_part},
                                             {.op = Op::backward, .what = Value::weight_part}};

bool is_alike(const Instruction& a, const Instruction& b) {
  return a.op == b.op && a.what == b.what;
}

/// Writes items from left to right, and begins a new line when one is full.
class LegendWriter {
 public:
  explicit LegendWriter(double width) : width_(width) {}

  /// Begins an item that will be `pixels` wide.
  void item(double pixels) {
    if (x_ > 0 && x_ + pixels > width_) x_ = 0, y_ += line;
  }
  void swatch(const CellColor& color, const std::string& label) {
    svg_ += markup(R"(<rect x="{}" y="{}" width="18" height="14" rx="2" fill="{}"/>)"
                   R"(<text x="{}" y="{}" text-anchor="middle" fill="{}">{}</text>)",
                   x_, y_, color.fill, x_ + 9, y_ + 11, color.text, label);
    x_ += 20;
  }
  /// Adds a swatch that looks like a recomputed cell, which is lower than its lane.
  void low_swatch(const CellColor& color) {
    svg_ += markup(R"(<rect class="lane" x="{}" y="{}" width="18" height="14" fill="#eceff3"/>)"
                   R"(<rect x="{}" y="{}" width="18" height="8" fill="{}"/>)",
                   x_, y_, x_, y_ + 6, color.fill);
    x_ += 23;
  }
  /// Adds a swatch that looks like a cell of the critical path.
  void underlined(const CellColor& color) {
    svg_ += markup(R"(<rect x="{}" y="{}" width="18" height="10" fill="{}"/>)"
                   R"(<rect class="ink" x="{}" y="{}" width="18" height="4" fill="#1f2933"/>)",
                   x_, y_, color.fill, x_, y_ + 11);
    x_ += 23;
  }
  /// Adds the hatching of idle time.
  void hatched() {
    svg_ += markup(R"s(<rect class="lane" x="{}" y="{}" width="18" height="14" fill="#edf0f4"/>)s"
                   R"s(<rect x="{}" y="{}" width="18" height="14" fill="url(#idle)"/>)s",
                   x_, y_, x_, y_);
    x_ += 23;
  }
  void bar(const std::string& look, double width, double height) {
    svg_ += markup(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" {}/>)",
                   height > 10 ? "step" : "message", x_, y_ + 7 - height / 2, width, height, look);
    x_ += width + 5;
  }
  void words(const std::string& text, double gap) {
    svg_ += ink(x_, y_ + 11, text);
    x_ += text_width(text) + gap;
  }
  Legend result() const { return {svg_, y_ + line}; }

 private:
  static constexpr double line = 20;
  double width_, x_ = 0, y_ = 0;
  std::string svg_;
};

/// Explains the shades of a kind of computations, if the timeline has some.
void add_kind(LegendWriter& out, Instruction kind, const Timeline& timeline, bool versions_differ) {
  std::set<int> versions;
  for (const Record& record : timeline.records)
    if (is_alike(kind, record.instruction)) versions.insert(record.instruction.version);
  if (versions.empty()) return;
  const std::string name = computation_kind(kind);
  const std::string words = versions_differ ? name + " on version" : name;
  const bool repeats = versions.size() > version_colors;
  const char* rest = repeats ? "and again" : "";
  out.item(text_width(words + rest) + 34 + 20.0 * (versions_differ ? version_colors : 1));
  if (versions_differ) out.words(words, 5);
  int shown = 0;
  for (int version : versions) {
    if (shown++ == version_colors) break;
    kind.version = version;
    out.swatch(cell_color(kind), versions_differ ? std::to_string(version) : "");
  }
  out.words(versions_differ ? rest : words, 14);
}

void add_repeated(LegendWriter& out, const Timeline& timeline) {
  const std::string words = "computed again";
  const std::vector<bool> repeated = recomputations(timeline);
  auto first = std::find(repeated.begin(), repeated.end(), true);
  if (first == repeated.end()) return;
  out.item(23 + text_width(words));
  out.low_swatch(cell_color(timeline.records[first - repeated.begin()].instruction));
  out.words(words, 14);
}

/// Explains the mark of the critical path.
void add_path(LegendWriter& out) {
  const std::string words = "critical path";
  out.item(23 + text_width(words));
  out.underlined(cell_color({.op = Op::forward, .version = 0}));
  out.words(words, 14);
}

void add_bar(LegendWriter& out, const std::string& name, const std::string& look) {
  out.item(19 + text_width(name));
  out.bar(look, 14, 5);
  out.words(name, 14);
}

void add_idle(LegendWriter& out) {
  const std::string words = "idle";
  out.item(23 + text_width(words));
  out.hatched();
  out.words(words, 14);
}

void add_words(LegendWriter& out, const std::string& words) {
  if (words.empty()) return;
  out.item(text_width(words));
  out.words(words, 14);
}

}  // namespace

CellColor cell_color(const Instruction& x) {
  const char* fill = color(color_name(x)).light;
  return {fill, ink_on(fill)};
}

bool is_message_color(const std::string& name) {
  return name == "update" || name == "fault" ||
         std::ranges::find(message_kinds, name) != std::end(message_kinds);
}

Legend legend(const Timeline& timeline, double width, const FigureOptions& shown,
              const std::string& labels) {
  std::set<std::string> kinds;
  bool updates = false;
  for (const Record& record : timeline.records) {
    if (record.lane == Lane::message) kinds.insert(message_kind(record.instruction));
    updates |= makes_version(record.instruction);
  }
  LegendWriter out(width);
  const bool versions_differ = has_several_versions(timeline);
  for (const Instruction& kind : computation_kinds) {
    add_kind(out, kind, timeline, versions_differ);
    if (begins_pass(kind)) add_repeated(out, timeline);
  }
  if (updates) {
    out.item(9 + text_width("update"));
    out.bar(in_color("update"), 4, 14);
    out.words("update", 16);
  }
  add_idle(out);
  for (const char* kind : message_kinds)
    if (kinds.contains(kind)) add_bar(out, kind, in_color(kind));
  if (!shown.path.empty()) add_path(out);
  add_words(out, labels);
  add_words(out, shown.note);
  return out.result();
}

Legend legend(const std::vector<NamedColor>& colors, double width) {
  LegendWriter out(width);
  for (const auto& [name, color] : colors) add_bar(out, name, fmt::format("fill=\"{}\"", color));
  return out.result();
}

double text_width(const std::string& text) { return 6.1 * static_cast<double>(text.size()); }

}  // namespace plangrad::parallel
