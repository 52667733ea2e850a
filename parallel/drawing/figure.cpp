// Words, units, axes, markup and lanes that all drawings share.
// Not here: pictures. Chapter 06.
#include "parallel/drawing/figure.h"

#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {
/// A number with the largest unit that it holds at least one of. Three digits, or all before the
/// point.
static std::string with_unit(double value,
                             const std::vector<std::pair<double, const char*>>& units) {
  auto unit = std::find_if(units.begin(), units.end(),
                           [&](const auto& u) { return std::abs(value) >= u.first * 0.9995; });
  if (unit == units.end()) --unit;
  value /= unit->first;
  std::string digits = fmt::format("{:.3g}", value);
  if (std::abs(value) >= 999.5) digits = fmt::format("{:.0f}", value);
  return digits + " " + unit->second;
}

std::string seconds_text(double seconds) {
  if (seconds >= 9999.5) {
    double minutes = std::round(seconds / 60), hours = std::floor(minutes / 60);
    return fmt::format("{:.0f} h {:.0f} min", hours, minutes - 60 * hours);
  }
  return with_unit(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}});
}

std::string bytes_text(double bytes) {
  return with_unit(bytes, {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}});
}

TimeUnit time_unit(double seconds) {
  if (seconds >= 1) return {"s", 1};
  return seconds >= 1e-3 ? TimeUnit{"ms", 1e3} : TimeUnit{"µs", 1e6};
}

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  double rough = (high - low) / count;
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double digit : {5.0, 2.0, 1.0})
    if (digit * power >= rough * 0.999) step = digit * power;
  std::vector<double> result;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    result.push_back(i * step + 0.0);  // + 0.0: no negative zero
  return result;
}

const char* computation_kind(const Instruction& x) {
  if (makes_version(x)) return "update";
  if (begins_pass(x)) return "forward";
  if (x.what == Value::input_part) return "backward, input part";
  return x.what == Value::weight_part ? "backward, weight part" : "backward";
}

std::vector<int> message_slots(const Timeline& timeline) {
  const std::vector<Record>& records = timeline.records;
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return records[i].start; });
  std::vector<int> slots(records.size(), 0);
  std::vector<std::vector<double>> busy_until(timeline.ranks);  // by rank and slot
  for (std::size_t i : order) {
    if (records[i].lane != Lane::message) continue;
    std::vector<double>& ends = busy_until.at(records[i].rank);
    auto slot = std::ranges::find_if(ends, [&](double end) { return end <= records[i].start; });
    if (slot == ends.end()) slot = ends.insert(slot, 0.0);
    *slot = records[i].end;
    slots[i] = static_cast<int>(slot - ends.begin());
  }
  return slots;
}

std::vector<bool> recomputations(const Timeline& timeline) {
  std::set<std::tuple<int, int, int>> seen;
  std::vector<bool> result;
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    result.push_back(begins_pass(x) && !seen.insert({record.rank, x.stage, x.micro}).second);
  }
  return result;
}

void check_drawable(const Timeline& timeline) {
  PG_CHECK(timeline.makespan() > 0, "draw: nothing in the timeline takes time (",
           counted(timeline.ranks, "rank"), ", ", counted(timeline.records.size(), "record"),
           "); draw one that was simulated or measured");
  for (const Record& record : timeline.records)
    PG_CHECK(record.rank >= 0 && record.rank < timeline.ranks && record.start >= 0 &&
                 record.end >= record.start,
             "draw: a record is outside the timeline: ", print(record.instruction), " of rank ",
             record.rank, " from ", record.start, " s to ", record.end, " s");
}

const char* const dark_style =
    "<style>@media (prefers-color-scheme: dark) { :where(.ink, .step) { fill: #e6edf3 } "
    ":where(.cells .step, .mark) { stroke: #e6edf3 } :where(.cells) { stroke: #0d1117 } "
    ":where(.paper) { fill: #0d1117 } :where(.grid) { stroke: #3d444d } :where(.lane) { fill: "
    "#222c37 } :where(.faint) { fill: #1c222b } :where(.hatch) { stroke: #45525f } }</style>\n";

std::string figure_style() {
  std::string rules;
  for (const Color& color : palette())
    if (color.light != std::string(color.dark) && is_message_color(color.name))
      rules += fmt::format(":where([color='{}']) {{ color: {} }} ", color.light, color.dark);
  return dark_style +
         fmt::format("<style>@media (prefers-color-scheme: dark) {{ {}}}</style>\n", rules);
}

std::string in_color(const std::string& name) {
  return fmt::format(R"(color="{}" fill="currentColor" stroke="currentColor")", color(name).light);
}

std::string idle_pattern() {
  return fmt::format(
      R"s(<pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" )s"
      R"s(patternTransform="rotate(45)"><path class="hatch" d="M0 0v6" stroke="{}" )s"
      R"s(stroke-width="2"/></pattern>)s"
      "\n",
      color("bubble").light);
}

std::string group(const char* name, const std::string& attributes, const std::string& content) {
  return fmt::format("<g class=\"{}\"{}>\n{}</g>\n", name, attributes, content);
}

std::vector<std::string> wrapped(const std::string& text, double width) {
  std::vector<std::string> lines;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    std::istringstream words(paragraph);
    std::string line;
    for (std::string word; words >> word;) {
      if (!line.empty() && text_width(line + ' ' + word) > width) {
        lines.push_back(line);
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    lines.push_back(line);
  }
  return lines;
}

std::string escape(const std::string& text) {
  static const std::map<char, std::string> entities{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (char c : text) {
    const auto entity = entities.find(c);
    result += entity == entities.end() ? std::string(1, c) : entity->second;
  }
  return result;
}

std::string number(double value) {
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string ink(double x, double y, const std::string& words, const std::string& attributes) {
  return markup(R"(<text class="ink" x="{}" y="{}"{}>{}</text>)", x, y, attributes, escape(words));
}

std::string paper(double left, double top, double width, double height) {
  return markup(R"(<rect class="paper" x="{}" y="{}" width="{}" height="{}" fill="#fff"/>)"
                "\n",
                left, top, width, height);
}

}  // namespace plangrad::parallel
