// The colours of timelines, and the legend that explains them.
// Not here: the timeline itself (timeline_figure.cpp).
// Chapter 06.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {
namespace {

/// Colours of messages by kind, in the order of the legend.
const std::vector<NamedColor> message_colors = {
    {"activations", "#4a90d0"},   {"activation gradients", "#e0813f"},
    {"gradient sums", "#8a4fd3"}, {"reductions", "#c28bff"},
    {"weights", "#2f9e5b"},       {"gathers", "#2f9e5b"},
    {"norms", "#868e96"},         {"turns", "#868e96"}};

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
  void bar(const std::string& color, double width, double height) {
    svg_ += markup(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)",
                   height > 10 ? "step" : "message", x_, y_ + 7 - height / 2, width, height, color);
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

void add_versions(LegendWriter& out, Op op, const std::set<int>& versions) {
  if (versions.empty()) return;
  out.item(150 + 20 * version_colors);
  out.words(fmt::format("{} on version", name_of(op)), 5);
  int shown = 0;
  for (int version : versions)
    if (shown++ < version_colors)
      out.swatch(cell_color({.op = op, .version = version}), std::to_string(version));
  out.words(shown > version_colors ? "..." : "", 14);
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

void add_bar(LegendWriter& out, const NamedColor& x) {
  out.item(19 + text_width(x.name));
  out.bar(x.color, 14, 5);
  out.words(x.name, 14);
}

}  // namespace

CellColor cell_color(const Instruction& x) {
  static constexpr CellColor cool[version_colors] = {
      {"#2563a8", "#fff"}, {"#92c7f0", "#102a43"}, {"#5a4fbf", "#fff"}, {"#1f7f7c", "#fff"}};
  static constexpr CellColor warm[version_colors] = {
      {"#c2501a", "#fff"}, {"#f7bd77", "#43260a"}, {"#a8326e", "#fff"}, {"#84690f", "#fff"}};
  if (makes_version(x)) return {"#1f2933", "#fff"};
  int shade = (x.version % version_colors + version_colors) % version_colors;
  return begins_pass(x) ? cool[shade] : warm[shade];
}

std::string message_color(const std::string& kind) {
  for (const auto& [name, color] : message_colors)
    if (name == kind) return color;
  return "#868e96";
}

Legend legend(const Timeline& timeline, double width, bool path) {
  std::map<Op, std::set<int>> versions;
  std::set<std::string> kinds;
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    if (record.lane == Lane::message)
      kinds.insert(message_kind(x));
    else
      versions[x.op].insert(x.version);
  }
  LegendWriter out(width);
  add_versions(out, Op::forward, versions[Op::forward]);
  add_repeated(out, timeline);
  add_versions(out, Op::backward, versions[Op::backward]);
  if (!versions[Op::step].empty()) {
    out.bar(cell_color({.op = Op::step}).fill, 4, 14);
    out.words("update", 16);
  }
  for (const NamedColor& color : message_colors)
    if (kinds.contains(color.name)) add_bar(out, color);
  if (path) add_path(out);
  return out.result();
}

Legend legend(const std::vector<NamedColor>& colors, double width) {
  LegendWriter out(width);
  for (const NamedColor& color : colors) add_bar(out, color);
  return out.result();
}

double text_width(const std::string& text) { return 6.1 * static_cast<double>(text.size()); }

}  // namespace paragrad::parallel
