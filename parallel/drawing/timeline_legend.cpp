// The colours of timelines, and the legend that explains them.
// Not here: the timeline itself (timeline_figure.cpp). Chapter 06.
#include <set>

#include "parallel/drawing/figure.h"
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
  void words(const std::string& text, double gap = 14) {
    svg_ += ink(x_, y_ + 11, text);
    x_ += text_width(text) + gap;
  }
  /// Adds an item: what draw(x, y) returns, `pixels` wide, and its meaning.
  template <class Draw>
  void explain(double pixels, const Draw& draw, const std::string& meaning, double gap = 14) {
    item(pixels + text_width(meaning));
    svg_ += draw(x_, y_);
    x_ += pixels;
    words(meaning, gap);
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
    if (const Instruction& x = record.instruction; x.op == kind.op && x.what == kind.what)
      versions.insert(x.version);
  if (versions.empty()) return;
  const std::string name = computation_kind(kind);
  const std::string words = versions_differ ? name + " on version" : name;
  const bool repeats = versions.size() > shades;
  const char* rest = repeats ? "and again" : "";
  out.item(text_width(words + rest) + 34 + 20.0 * (versions_differ ? shades : 1));
  if (versions_differ) out.words(words, 5);
  int shown = 0;
  for (int version : versions) {
    if (shown++ == shades) break;
    kind.version = version;
    out.swatch(cell_color(kind), versions_differ ? std::to_string(version) : "");
  }
  out.words(versions_differ ? rest : words);
}

/// Explains cells that are lower than their lane.
void add_repeated(LegendWriter& out, const Timeline& timeline) {
  const std::vector<bool> repeated = recomputations(timeline);
  auto first = std::find(repeated.begin(), repeated.end(), true);
  if (first == repeated.end()) return;
  const char* fill = cell_color(timeline.records[first - repeated.begin()].instruction).fill;
  auto low_cell = [=](double x, double y) {
    return markup(R"(<rect class="lane" x="{}" y="{}" width="18" height="14" fill="#eceff3"/>)"
                  R"(<rect x="{}" y="{}" width="18" height="8" fill="{}"/>)",
                  x, y, x, y + 6, fill);
  };
  out.explain(23, low_cell, "computed again");
}

std::string hatched(double x, double y) {
  return markup(R"s(<rect class="lane" x="{}" y="{}" width="18" height="14" fill="#edf0f4"/>)s"
                R"s(<rect x="{}" y="{}" width="18" height="14" fill="url(#idle)"/>)s",
                x, y, x, y);
}

/// A cell of the critical path.
std::string underlined(double x, double y) {
  return markup(R"(<rect x="{}" y="{}" width="18" height="10" fill="{}"/>)"
                R"(<rect class="ink" x="{}" y="{}" width="18" height="4" fill="#1f2933"/>)",
                x, y, cell_color({.op = Op::forward, .version = 0}).fill, x, y + 11);
}

/// Explains a kind of messages.
void add_bar(LegendWriter& out, const std::string& kind) {
  auto bar = [&](double x, double y) {
    return markup(R"(<rect class="message" x="{}" y="{}" width="14" height="5" {}/>)", x, y + 4.5,
                  in_color(kind));
  };
  out.explain(19, bar, kind);
}

void add_words(LegendWriter& out, const std::string& words) {
  if (words.empty()) return;
  out.item(text_width(words));
  out.words(words);
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
    auto bar = [](double x, double y) {
      return markup(R"(<rect class="step" x="{}" y="{}" width="4" height="14" {}/>)", x, y,
                    in_color("update"));
    };
    out.explain(9, bar, "update", 16);
  }
  out.explain(23, hatched, "idle");
  for (const char* kind : message_kinds)
    if (kinds.contains(kind)) add_bar(out, kind);
  if (!shown.path.empty()) out.explain(23, underlined, "critical path");
  add_words(out, labels);
  add_words(out, shown.note);
  return out.result();
}

}  // namespace plangrad::parallel
