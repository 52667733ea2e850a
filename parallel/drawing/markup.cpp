// Markup that all figures share: words, colours on light and on dark, hatching.
// Not here: numbers with units, and what is drawn of a timeline (figure.cpp). Chapter 06.
#include <cmath>
#include <map>
#include <sstream>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/palette.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {

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

std::string whole_percent(double share) { return fmt::format("{:.0f}%", std::abs(100 * share)); }

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
