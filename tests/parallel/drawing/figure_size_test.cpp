// How large figures are: one scale of time for those that are compared, cells that have room for
// their labels, and what makes a figure readable on any background.
// Not here: what a figure shows (draw_svg_test.cpp).
#include <fmt/format.h>

#include <regex>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

Timeline timeline_of(const std::string& schedule, const Layout& layout) {
  return simulate_unverified(make_plan(schedule, layout), {.backward = {1}});
}

Timeline gpipe() { return timeline_of("gpipe", {.stages = 4, .microbatches = 2}); }
Timeline round_dance() {
  return timeline_of("cyclic-v2", {.stages = 4, .microbatches = 4, .steps = 3});
}

double width_of(const std::string& svg) {
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, std::regex("viewBox=\"\\S+ \\S+ ([0-9.]+)")));
  return std::stod(found[1]);
}

}  // namespace

TEST_CASE("figures of equal width and seconds have one scale of time", "[draw]") {
  const Timeline short_one = gpipe(), dance = round_dance();
  const FigureOptions options{.seconds = 40, .width = 900};
  for (const Timeline* timeline : {&short_one, &dance}) {
    const FigureLayout layout = suitable_layout(*timeline, options);
    CHECK(layout.seconds == 40);
    CHECK(layout.pixels_per_second == (900 - left_margin(4) - right_margin) / 40);
    CHECK(width_of(draw_svg(*timeline, options)) == 900);
  }
  CHECK(suitable_layout(short_one).pixels_per_second != suitable_layout(dance).pixels_per_second);
  CHECK_THAT(draw_svg(dance, {.seconds = 5}), Contains("Drawn: the first 5 s of 30 s."));
  CHECK_THROWS_WITH(draw_svg(dance, {.width = 150}), Contains("of 150 pixels leaves 43 for"));
}

TEST_CASE("cells of ranks with several stages have room for stage and version", "[draw]") {
  const Timeline short_one = gpipe(), dance = round_dance();
  const std::string svg = draw_svg(dance);
  for (const Record& record : dance.records)
    if (uses_weights(record.instruction)) {
      CHECK_THAT(svg, Contains(fmt::format(">s{}</text>", record.instruction.stage)));
      CHECK_THAT(svg, Contains(fmt::format(">v{}</text>", record.instruction.version)));
    }
  CHECK_THAT(svg, !Contains("font-size=\"8\""));
  CHECK(suitable_layout(dance).pixels_per_second >= label_width(11, 2));  // "s3"
  // Ranks with one stage need no stage in a cell, and one update no version.
  CHECK(computed_stages(short_one).back().size() == 1);
  CHECK_THAT(draw_svg(short_one), Contains(">1</text>") && !Contains(">s1<") && !Contains(">v0<"));
}

TEST_CASE("a figure has its own background, and pages leave it out", "[draw]") {
  const std::string svg = draw_svg(gpipe());
  CHECK_THAT(svg,
             Contains("<rect class=\"paper\" x=\"0\" y=\"0\" width=\"" + number(width_of(svg))));
  // The first shape is behind all others.
  CHECK(svg.find("<rect") == svg.find("<rect class=\"paper\""));
  CHECK_THAT(svg, Contains(":where(.paper) { fill: #0d1117 }"));
}
