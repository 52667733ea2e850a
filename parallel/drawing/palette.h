// The palette: one table of colours for all drawings: figures, pages and the plan player. Hue is
// the direction of a computation, lightness the version of the weights that it reads.
// Not here: what is drawn in them. Chapter 06.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

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

/// White or nearly black: the one that can be read on `fill` ("#17559b"), at 4.5 to 1 or better on
/// every colour that a cell or chip has.
const char* ink_on(std::string_view fill);

/// The palette as CSS variables, with dark ones for those who prefer them: var(--forward-0), and
/// var(--forward-0-ink) for text on it. Spaces in names become hyphens.
std::string palette_css();

}  // namespace plangrad::parallel
