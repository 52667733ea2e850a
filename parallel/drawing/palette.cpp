// The table of colours. Colours that stand side by side differ by 15 or more in CIELAB, also for
// eyes without green cones (deuteranopia), and directions in grey; tests compute it. Chapter 06.
#include "parallel/drawing/figure.h"

#include <array>
#include <cmath>

namespace plangrad::parallel {
namespace {

constexpr Color colors[] = {
    // Cells: lighter is newer.
    {"forward-0", "#2b69b0", "#2b69b0"},
    {"forward-1", "#5d98e0", "#5d98e0"},
    {"forward-2", "#98c4fa", "#98c4fa"},
    {"forward-3", "#cee4fe", "#cee4fe"},
    {"backward-0", "#8d3d02", "#8d3d02"},
    {"backward-1", "#ce5f13", "#ce5f13"},
    {"backward-2", "#f68a4f", "#f68a4f"},
    {"backward-3", "#feb48e", "#feb48e"},
    {"input-part-0", "#9b8601", "#9b8601"},
    {"input-part-1", "#c7ae19", "#c7ae19"},
    {"input-part-2", "#f0d54a", "#f0d54a"},
    {"input-part-3", "#fff5c2", "#fff5c2"},
    {"weight-part-0", "#861a51", "#861a51"},
    {"weight-part-1", "#b84379", "#b84379"},
    {"weight-part-2", "#e573a3", "#e573a3"},
    {"weight-part-3", "#fab2cd", "#fab2cd"},
    {"update", "#1b2530", "#e5eaf0"},
    // Memory, and messages that carry it.
    {"weights", "#1b575a", "#b2e2e4"},
    {"gradients", "#ab4b01", "#f3813f"},
    {"optimizer", "#6420aa", "#894ed6"},
    {"activations", "#4682cc", "#69a1e8"},
    {"communication", "#a89000", "#edd13d"},
    {"workspace", "#cb7196", "#e68aaf"},
    {"index", "#163f21", "#7c8882"},
    {"gathers", "#1b575a", "#b2e2e4"},
    {"gradient sums", "#ab4b01", "#f3813f"},
    {"reductions", "#ab4b01", "#f3813f"},
    {"activation gradients", "#c8813a", "#ffb27d"},
    {"norms", "#68737f", "#93a0ad"},
    {"turns", "#68737f", "#93a0ad"},
    // Curves.
    {"series-0", "#17559b", "#75aef5"},
    {"series-1", "#ce5f13", "#f68a4f"},
    {"series-2", "#6420aa", "#b48cf0"},
    {"series-3", "#1b575a", "#b2e2e4"},
    {"series-4", "#b84379", "#fab2cd"},
    {"series-5", "#a89000", "#edd13d"},
    // The page.
    {"page", "#f7f8fa", "#0f141a"},
    {"card", "#ffffff", "#18202a"},
    {"lane", "#edf0f4", "#222c37"},
    {"line", "#dfe4ea", "#2c3743"},
    {"ink", "#1b2530", "#e5eaf0"},
    {"dim", "#5b6775", "#9aa7b5"},
    {"bubble", "#c3cbd5", "#45525f"},
    {"accent", "#b4005a", "#ff6fae"},
    {"path", "#b4005a", "#ff6fae"},
    {"fault", "#c01030", "#ff7b86"},
    {"bar", "#7c3aed", "#a78bfa"},
};

/// How bright a colour is, from 0 to 1. source: WCAG 2.1, relative luminance
double luminance(std::string_view fill) {
  const std::array<double, 3> weights = {0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const double part = std::stoi(std::string(fill.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    sum += weights[i] * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(std::string_view a, std::string_view b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

const char* family_of(const Instruction& x) {
  if (begins_pass(x)) return "forward";
  return x.what == Value::input_part    ? "input-part"
         : x.what == Value::weight_part ? "weight-part"
                                        : "backward";
}

std::string variables(const char* Color::*theme) {
  std::string css;
  for (const Color& each : colors) {
    std::string name = each.name;
    std::ranges::replace(name, ' ', '-');
    css += fmt::format("--{0}:{1};--{0}-ink:{2};", name, each.*theme, ink_on(each.*theme));
  }
  return css;
}

}  // namespace

std::span<const Color> palette() { return colors; }

const Color& color(std::string_view name) {
  const auto* found = std::ranges::find(
      colors, name, [](const Color& each) { return std::string_view(each.name); });
  PG_CHECK(found != std::end(colors), "palette: there is no colour \"", name,
           "\"; add it to the table in parallel/drawing/palette.cpp");
  return *found;
}

std::string color_name(const Instruction& x) {
  if (makes_version(x) || drops(x)) return "update";
  if (!is_compute(x)) return message_kind(x);
  return fmt::format("{}-{}", family_of(x), (x.version % shades + shades) % shades);
}

const char* ink_on(std::string_view fill) {
  constexpr const char *white = "#ffffff", *black = "#10161d";
  return contrast(white, fill) > contrast(black, fill) ? white : black;
}

std::string palette_css() {
  return fmt::format(":root{{{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n",
                     variables(&Color::light), variables(&Color::dark));
}

}  // namespace plangrad::parallel
