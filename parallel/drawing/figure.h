// What all drawings share: numbers with units, axes, markup, what is drawn of a timeline; and the
// palette, one table of colours for figures, pages and the plan player: hue is the direction of a
// computation, lightness the version of the weights that it reads.
// Not here: the drawings (draw_*.cpp). Chapter 06.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "parallel/plan/plan.h"
#include "parallel/simulation/time_steps.h"

namespace plangrad::parallel {

/// Three digits and a unit: "1.25 ms", "12.5 MB" (10^6 bytes); "8320 s", "2 h 47 min".
std::string seconds_text(double seconds);
std::string bytes_text(double bytes);

/// The unit that suits an axis of `seconds`: "ms", and 1000 of them in a second.
struct TimeUnit {
  std::string name;
  double per_second;
};
TimeUnit time_unit(double seconds);

/// Round numbers from `low` to `high`, about `count` of them.
std::vector<double> ticks(double low, double high, int count);

/// Escapes text for XML and HTML.
std::string escape(const std::string& text);

/// A position or length in a figure, without idle digits.
std::string number(double value);

inline std::string in_markup(double value) { return number(value); }
template <class T>
const T& in_markup(const T& value) {
  return value;
}
/// fmt::format for SVG: each double is a position or length.
template <class... T>
std::string markup(fmt::format_string<decltype(in_markup(std::declval<const T&>()))...> format,
                   const T&... values) {
  return fmt::format(format, in_markup(values)...);
}

/// Words in the page's text colour from (x, y) on. `attributes` begin with a space.
std::string ink(double x, double y, const std::string& words, const std::string& attributes = "");

/// A rectangle behind a figure, so that it is readable wherever it is shown; pages hide it.
std::string paper(double left, double top, double width, double height);

/// A <style> that makes an SVG readable on a dark screen. The style of a page takes precedence.
extern const char* const dark_style;
/// dark_style, and the dark colours of what is drawn in_color().
std::string figure_style();
/// Attributes that fill and stroke a shape in a colour of the palette, on light and on dark.
std::string in_color(const std::string& name);
/// The hatching of idle time, as a fill: url(#idle).
std::string idle_pattern();

/// <g class="name"...>
std::string group(const char* name, const std::string& attributes, const std::string& content);

/// Text in lines of at most `width` pixels, cut at spaces.
std::vector<std::string> wrapped(const std::string& text, double width);

/// The kind of a computation: "forward", "backward", "backward, input part", ..., "update".
const char* computation_kind(const Instruction& instruction);

/// For each record that is a message: the first slot of its rank's message lane that is free from
/// its start to its end; 0 for computations.
std::vector<int> message_slots(const Timeline& timeline);

/// For each record: whether it is a forward that repeats an earlier one of its rank.
std::vector<bool> recomputations(const Timeline& timeline);

/// throws: Error if nothing in the timeline takes time
void check_drawable(const Timeline& timeline);

// ---- the palette (palette.cpp) ----

/// A name, as "forward-0", "weights", "bubble", with its colour on light and on dark pages.
struct Color {
  const char *name, *light, *dark;
};

/// All colours. Cells' names end in a shade; kinds of messages (message_kind) and categories of
/// memory are names, too, and what is called the same has the same colour.
std::span<const Color> palette();
/// throws: Error if the palette has no such name
const Color& color(std::string_view name);

/// Shades of a kind of cells: a version has the shade version % shades, so that shades repeat.
constexpr int shades = 4;
/// The name of an instruction's colour: "backward-2", "update", "gradient sums".
std::string color_name(const Instruction& instruction);

/// White or nearly black: the one that can be read on `fill` ("#2b69b0"), at 4.5 to 1 or better on
/// every colour that a cell or chip has.
const char* ink_on(std::string_view fill);

/// The palette as CSS variables, with dark ones for those who prefer them: var(--forward-0), and
/// var(--forward-0-ink) for text on it. Spaces in names become hyphens.
std::string palette_css();

}  // namespace plangrad::parallel
