// Posters: what stands on them, and that entries have one scale of time.
#include "examples/programs/plan_poster.h"

#include <regex>

#include "parallel/drawing/figure.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::examples;
using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

Poster two_schedules() {
  Poster poster{"Two & two", "Why <so>", {}};
  for (const char* name : {"gpipe", "1f1b"})
    poster.entries.push_back({name,
                              std::string("the idea of ") + name,
                              {{"27%", "idle"}, {"8", "kept"}, {"1", "version"}},
                              simulated(name, {.stages = 4, .microbatches = 4, .steps = 2}),
                              4,
                              4});
  return poster;
}

}  // namespace

TEST_CASE("draw_poster: names, ideas and numbers, as well-formed markup", "[draw]") {
  const std::string svg = draw_poster(two_schedules());
  check_markup(svg);
  CHECK_THAT(svg, Contains(">Two &amp; two</text>") && Contains(">Why &lt;so&gt;</text>") &&
                      Contains(">gpipe</text>") && Contains(">the idea of 1f1b</text>") &&
                      Contains("<tspan font-weight=\"700\">27%</tspan> idle"));
  CHECK(count(svg, "class=\"area\"") == 2);
  CHECK_THAT(svg, Contains(">01230123"));  // microbatches of an update, each at its place
  CHECK_THAT(svg, !Contains("4567"));
  Poster low = two_schedules();
  low.cell = 8;
  CHECK_THAT(draw_poster(low), !Contains(">0123"));
}

TEST_CASE("draw_poster: all timelines have one scale", "[draw]") {
  Poster poster = two_schedules();
  auto widths = [](const Poster& drawn) {  // of the hatched lanes
    const std::string svg = draw_poster(drawn);
    std::set<std::string> found;
    const std::regex lane("width=\"([0-9.]+)\" height=\"13\" fill=\"url");
    for (std::sregex_iterator at(svg.begin(), svg.end(), lane), end; at != end; ++at)
      found.insert((*at)[1]);
    return found;
  };
  CHECK(widths(poster) == std::set<std::string>{"582"});  // of 800 pixels
  for (Record& record : poster.entries[0].timeline.records) record.start *= 2, record.end *= 2;
  CHECK(widths(poster) == std::set<std::string>{"291", "582"});
  poster.entries[0].timeline = {};
  CHECK_THROWS_WITH(draw_poster(poster), Contains("takes time"));
}
