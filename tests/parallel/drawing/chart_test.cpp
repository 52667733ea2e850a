// Charts: the values that they show, their axes and their legends.

#include "tests/benchmarks/chart.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

TEST_CASE("curve_chart: values to read, gaps where there is no number", "[draw]") {
  double nan = std::numeric_limits<double>::quiet_NaN();
  std::string svg = curve_chart(
      {"Loss", "step", "nats", {{"training", {1, 2, 3}, {4, nan, 2}}, {"validation", {3}, {2.5}}}});
  check_markup(svg);
  CHECK_THAT(svg, Contains("<title>step 1\ntraining: 4 nats</title>"));
  CHECK_THAT(svg, Contains("<title>step 3\ntraining: 2 nats\nvalidation: 2.5 nats</title>"));
  CHECK_THAT(svg, !Contains("nan") && !Contains("step 2\n"));
  CHECK_NOTHROW(check_markup(curve_chart({"Loss", "step", "nats", {}})));
  CHECK_NOTHROW(check_markup(curve_chart({"Loss", "step", "nats", {{"one", {7}, {1}}}})));
  CHECK_THROWS_WITH(curve_chart({"", "", "", {{"training", {1, 2}, {1}}}}),
                    Contains("training has 2 x and 1 y"));
}

TEST_CASE("charts: a long legend has several lines, inside the chart", "[draw]") {
  Curve curve{"Loss", "step", "nats", {}};
  for (int i = 0; i < 12; ++i)
    curve.series.push_back({"a category, number " + std::to_string(i), {1}, {1}});
  const std::string svg = curve_chart(curve);
  check_markup(svg);
  CHECK_THAT(svg, Contains("viewBox=\"0 -54 560 324\"") && Contains("translate(62 -54)"));
  CHECK(count(svg, "rect class=\"message\" x=\"0\"") == 4);  // three of 159 pixels in each line
}

TEST_CASE("curves name both axes", "[draw]") {
  const std::string svg =
      curve_chart({"Error", "ranks", "relative error", {{"ring", {2, 4}, {1, 2}}}});
  CHECK_THAT(svg, Contains(">ranks</text>"));
  CHECK_THAT(svg, Contains("rotate(-90 12 132)\">relative error</text>"));
  CHECK(svg.find("<rect") == svg.find("<rect class=\"paper\""));
}
