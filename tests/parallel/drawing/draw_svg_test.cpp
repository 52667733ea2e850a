// Figures of timelines: what must be in them.
// Not here: how large they are (figure_size_test.cpp).

#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/simulation/breakdown.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

TEST_CASE("draw_svg: every record is there, as well-formed markup", "[draw]") {
  Timeline timeline = two_by_two();
  std::string svg = draw_svg(timeline);
  check_markup(svg);
  CHECK(count(svg, "<title>") == timeline.records.size());
  for (const Record& record : timeline.records) {
    std::string title = "<title>rank " + std::to_string(record.rank) + ": " +
                        escape(print(record.instruction)) + "\n";
    CHECK(count(svg, title) == 1);
  }
  CHECK_THAT(svg, Contains("from 1 s, takes 250 ms, 125 kB sent"));
  CHECK_THAT(svg, !Contains("<script") && !Contains("Drawn:"));
}

TEST_CASE("draw_svg: a dropped value takes no time and no place, and recomputation is low",
          "[draw]") {
  Layout layout{.stages = 3, .microbatches = 3};
  layout.recompute = true;
  Timeline timeline = simulated("gpipe", layout, {.latency = 0.5});
  auto drops = std::count_if(timeline.records.begin(), timeline.records.end(),
                             [](const Record& r) { return r.instruction.op == Op::drop; });
  REQUIRE(drops > 0);
  std::string svg = draw_svg(timeline);
  CHECK(count(svg, "<title>") == timeline.records.size() - drops);
  CHECK(count(svg, "recomputed") == static_cast<std::size_t>(drops));
  CHECK(count(svg, "height=\"16\"") == static_cast<std::size_t>(drops));
  CHECK_THAT(svg, Contains(">computed again<"));
  CHECK_THAT(draw_svg(two_by_two()), !Contains("computed again") && !Contains("height=\"16\""));
}

TEST_CASE("draw_svg: cells of one width all have a label, or none", "[draw]") {
  auto labels = [](int microbatches) {
    std::string svg = draw_svg(simulated("gpipe", {.stages = 2, .microbatches = microbatches}));
    return std::pair{count(svg, "fill=\"#ffffff\">1</text>"),
                     count(svg, "font-size=\"8\">10</text>")};
  };
  CHECK(labels(9) == std::pair<std::size_t, std::size_t>{4, 0});
  CHECK(labels(12) == std::pair<std::size_t, std::size_t>{4, 0});  // wide: two digits fit
  std::string narrow = draw_svg(simulated("gpipe", {.stages = 2, .microbatches = 80}));
  for (const char* micro : {"1", "10", "79"})
    CHECK(count(narrow, " font-size=\"8\">" + std::string(micro) + "</text>") == 4);
  std::string narrower = draw_svg(simulated("gpipe", {.stages = 2, .microbatches = 110}));
  for (const char* micro : {"1", "10", "109"})
    CHECK(count(narrower, "fill=\"#ffffff\">" + std::string(micro) + "</text>") == 0);
}

TEST_CASE("draw_svg: the last tick's label is not cut", "[draw]") {
  Timeline timeline{1, {{0, Lane::compute, parse_instruction("0F0v0"), 0, 8, 0}}};
  std::string svg = draw_svg(timeline);  // 560 pixels; the last tick is at their end
  CHECK_THAT(svg, Contains("M560 ") && Contains("x=\"556\"") && Contains("text-anchor=\"end\">8<"));
  CHECK(count(svg, "text-anchor=\"end\"") == 1);
}

TEST_CASE("draw_svg: versions that are alive together look different", "[draw]") {
  std::set<std::string> fills;
  for (Op op : {Op::forward, Op::backward})
    for (int version = 5; version < 5 + shades; ++version)
      fills.insert(cell_color({.op = op, .version = version}).fill);
  for (Value part : {Value::input_part, Value::weight_part})
    for (int version = 5; version < 5 + shades; ++version)
      fills.insert(cell_color({.op = Op::backward, .version = version, .what = part}).fill);
  CHECK(fills.size() == 4 * shades);

  std::string svg = draw_svg(two_by_two());
  for (int version : {0, 1}) {
    std::string fill = cell_color({.op = Op::forward, .version = version}).fill;
    CHECK(count(svg, "fill=\"" + fill + "\"><title>") > 0);
  }
}

TEST_CASE("draw_svg: the parts of a backward are told apart, and the legend names them", "[draw]") {
  const Plan plan = parse(
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 1F0v0 1I0v0 0I0v0 0F1v0 1F1v0 1B1v0 0B1v0 1W0v0 0W0v0\n");
  const Timeline timeline = simulate_unverified(plan, {.backward = {2}});
  const std::string svg = draw_svg(timeline);
  check_markup(svg);
  for (const char* kind : {"forward", "backward", "backward, input part", "backward, weight part"})
    CHECK_THAT(svg, Contains(">" + std::string(kind) + "</text>"));
  auto drawn = [&](Op op, Value part) {
    return count(svg,
                 "fill=\"" + std::string(cell_color({op, 0, 0, 0, -1, part}).fill) + "\"><title>");
  };
  CHECK(drawn(Op::backward, Value::none) == 2);
  CHECK(drawn(Op::backward, Value::input_part) == 2);
  CHECK(drawn(Op::backward, Value::weight_part) == 2);
  CHECK_THAT(draw_svg(two_by_two()),
             Contains(">backward on version</text>") && !Contains("part on version"));
}

TEST_CASE("draw_svg: a row names the stage in all labels or in none", "[draw]") {
  // Rank 0 has cells of 3, 9 and 9 units, rank 1 of 9.
  Costs costs{.forward = {3}, .backward = {9}};
  const Timeline timeline = simulate_unverified(
      parse("stages 2 per_step 2 steps 1\n0F0v0 1F0v0 1B0v0 0B0v0\n1B1v0 0B1v0\n"), costs);
  const std::string svg = draw_svg(timeline, {.seconds = 24, .width = 220});
  CHECK(count(svg, ">s0</text>") == 1);  // of rank 1
  CHECK(count(svg, ">s1</text>") == 1);
  CHECK(count(draw_svg(timeline, {.seconds = 24, .width = 250}), ">s0</text>") == 3);
}

TEST_CASE("draw_svg: cells have their version where it differs, and room", "[draw]") {
  const std::string svg = draw_svg(two_by_two());
  CHECK(count(svg, ">v0</text>") > 0);
  CHECK(count(svg, ">v1</text>") > 0);
  CHECK_THAT(svg, Contains(">number: microbatch, v: version</text>"));
  CHECK_THAT(draw_svg(simulated("1f1b", {.stages = 2, .microbatches = 2})), !Contains(">v0<"));
  CHECK_THAT(draw_svg(two_by_two(), {.width = 594}), !Contains(">v0<"));
}

TEST_CASE("draw_svg: idle time is hatched, and its share ends each row", "[draw]") {
  // Rank 0 computes for 3 of 4 s, rank 1 for 2.
  const Timeline timeline = simulated("1f1b", {.stages = 2, .microbatches = 1});
  CHECK(idle_of_ranks(timeline) == std::vector<double>{0.5, 0.5});
  const std::string svg = draw_svg(timeline);
  CHECK(count(svg, ">50%</text>") == 2);
  CHECK(count(svg, "class=\"idle\"") == 2);
  CHECK(count(svg, "<pattern id=\"idle\"") == 1);
  // Only what the timeline covers is idle, not the rest of a longer axis.
  CHECK_THAT(
      draw_svg(timeline, {.seconds = 8, .width = 907}),
      Contains("class=\"idle\"") && Contains("width=\"400\" height=\"26\" fill=\"url(#idle)"));
}

TEST_CASE("draw_svg: messages are lines from send to receive, if they are few", "[draw]") {
  auto lines = [](const std::string& svg) {
    const auto from = svg.find("<g class=\"lines\"");
    return count(svg.substr(from, svg.find("</g>", from) - from), "<path ");
  };
  const Timeline free = simulated("1f1b", {.stages = 3, .microbatches = 4});
  CHECK(lines(draw_svg(free)) == 16);
  CHECK_THAT(draw_svg(free), !Contains("class=\"message\" d="));  // no strips of no length
  CHECK(lines(draw_svg(two_by_two())) == 36);
  CHECK_THAT(draw_svg(two_by_two()), Contains("class=\"message\" d="));
  CHECK(lines(draw_svg(simulated("1f1b", {.stages = 3, .microbatches = 60}))) == 0);
}

TEST_CASE("draw_svg: a fault is red, with its sentence below", "[draw]") {
  FigureOptions options;
  options.fault = Fault{{1, Lane::compute, parse_instruction("1F0v0"), 1, 2, 0},
                        "input: rank 1, 1F0v0: needs <what> never comes\nrank 1: [1F0v0] 1B0v0"};
  const std::string svg = draw_svg(simulated("1f1b", {.stages = 2, .microbatches = 2}), options);
  check_markup(svg);
  CHECK(count(svg, "class=\"fault\"") == 1);
  CHECK_THAT(svg, Contains(">input: rank 1, 1F0v0: needs &lt;what&gt; never comes</text>") &&
                      Contains(">rank 1: [1F0v0] 1B0v0</text>"));
}

TEST_CASE("draw_svg: what ranks hold, as lanes below them", "[draw]") {
  const Plan plan = make_plan("2bw", {.stages = 2, .microbatches = 2, .steps = 2});
  const Timeline timeline = simulate_unverified(plan, {.backward = {1}});
  FigureOptions options;
  options.held = holdings(plan, timeline);
  const std::string svg = draw_svg(timeline, options);
  check_markup(svg);
  const auto drawn = std::ranges::count_if(
      options.held, [&](const Holding& h) { return h.start < timeline.makespan(); });
  CHECK(count(svg, "class=\"held\"") == static_cast<std::size_t>(drawn));
  CHECK_THAT(svg,
             Contains("<title>rank 0 holds version 1 of stage 0\n") &&
                 Contains("<title>rank 1 holds the activations of stage 1 for microbatch 3\n") &&
                 Contains("<title>rank 0 holds the open sum of stage 0 for version 2\n"));
}

TEST_CASE("draw_svg: what is too large is cut, and the figure says so", "[draw]") {
  std::string tall = draw_svg(simulated("data", {.width = 100}));
  CHECK_THAT(tall, Contains("Drawn: the first 64 of 100 ranks.") && !Contains("rank 64"));
  check_markup(tall);
  FigureOptions wrong;
  wrong.fault = Fault{{80, Lane::compute, parse_instruction("0F80v0"), 0, 1, 0}, "wrong"};
  tall = draw_svg(simulated("data", {.width = 100}), wrong);  // down to the rank at fault
  CHECK_THAT(tall, Contains("the first 81 of 100 ranks.") && Contains("class=\"fault\""));
  Timeline timeline = simulated("data", {.microbatches = 2000});
  std::string wide = draw_svg(timeline);
  CHECK_THAT(wide, Contains("Drawn: the first") && Contains("of 4000 s."));
  CHECK(count(wide, "<title>") < timeline.records.size() / 2);
  check_markup(wide);
}

TEST_CASE("draw_svg: messages under way together lie side by side", "[draw]") {
  Timeline timeline = two_by_two();
  std::vector<int> slots = message_slots(timeline);
  CHECK(*std::max_element(slots.begin(), slots.end()) > 0);
  for (std::size_t i = 0; i < slots.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const Record &a = timeline.records[i], &b = timeline.records[k];
      bool same_place = a.lane == b.lane && a.rank == b.rank && slots[i] == slots[k];
      CHECK((!same_place || a.end <= b.start || b.end <= a.start));
    }
}

TEST_CASE("draw_svg: computations of the critical path are underlined, its messages outlined",
          "[draw]") {
  const Plan plan = make_plan("1f1b", {.stages = 2, .microbatches = 2});
  Costs costs{.backward = {1}};
  costs.latency = 0.25;
  const Timeline timeline = simulate_unverified(plan, costs);
  const CriticalPath path = critical_path(plan, timeline);
  const std::string svg = draw_svg(timeline, {.path = path.records});
  check_markup(svg);
  CHECK_THAT(svg, Contains(">critical path<"));
  // An update of no length, which ends the path, is a line as it is.
  CHECK(count(svg, "class=\"ink critical\"") == static_cast<std::size_t>(path.computations - 1));
  CHECK(count(svg, "class=\"mark critical\"") == static_cast<std::size_t>(path.messages));
  CHECK(path.messages == 2);
  CHECK_THAT(draw_svg(timeline), !Contains("critical"));
}

TEST_CASE("draw_svg: a lane of activations alive, if asked for", "[draw]") {
  Timeline timeline = simulated("gpipe", {.stages = 2, .microbatches = 2});
  CHECK_THAT(draw_svg(timeline), !Contains("alive"));
  std::string svg = draw_svg(timeline, {.alive = true});
  check_markup(svg);
  CHECK_THAT(svg, Contains(">4 alive</text>"));
  CHECK(count(svg, "class=\"alive\"") == 5);  // 1, 3, 4, 3, 1
  CHECK_THAT(svg, Contains("4 activations alive on all ranks, by stage and microbatch\n"
                           "from 2 s, for 2 s"));
}
