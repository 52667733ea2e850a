// Drawings: text to the letter; SVG, trace and page by what must be in them.
#include "parallel/drawing/draw.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "parallel/drawing/breakdown_table.h"
#include "parallel/drawing/chart.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace paragrad::parallel;
using nlohmann::json;

namespace {

Timeline simulated(const std::string& schedule, const Layout& layout, const Costs& costs = {}) {
  return simulate_unverified(make_plan(schedule, layout), costs);
}

/// Backward twice as long as forward, messages and steps that take time.
Costs costs() {
  Costs costs;
  costs.backward = {2};
  costs.step = {0.5};
  costs.latency = 0.125;
  costs.bandwidth = 1e6;
  costs.activation_bytes = {125000};
  costs.weight_bytes = {1000000};
  return costs;
}

Timeline two_by_two() {
  return simulated("2bw", {.stages = 2, .width = 2, .microbatches = 3, .steps = 3}, costs());
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Checks that tags nest, that attributes are quoted, and that & begins an entity.
void check_markup(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) {
    std::size_t end = text.find('>', at);
    REQUIRE(end < text.find('<', at + 1));
    std::string tag = text.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find(' '));
    CHECK(count(tag, "\"") == 2 * count(tag, "=\""));
    CHECK(count(tag, "=") == count(tag, "=\""));
    if (tag[0] == '/') {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
    REQUIRE(text.find('>', at) >= text.find('<', at));
  }
  CHECK(open.empty());
  std::size_t entities = 0;
  for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
    entities += count(text, entity);
  CHECK(count(text, "&") == entities);
}

std::vector<std::string> figures_in(const std::string& page) {
  std::vector<std::string> figures;
  for (auto at = page.find("<svg xmlns"); at != page.npos; at = page.find("<svg xmlns", at + 1)) {
    auto next = page.find("<svg xmlns", at + 1);
    auto end = page.rfind("</svg>", next);
    figures.push_back(page.substr(at, end + 6 - at));
  }
  return figures;
}

}  // namespace

TEST_CASE("draw_text: GPipe, to the letter", "[draw]") {
  Costs twice;
  twice.backward = {2};
  Timeline timeline = simulated("gpipe", {.stages = 3, .microbatches = 2}, twice);
  CHECK(draw_text(timeline) ==
        "rank 0  0F0 0F1 ... ... ... ... ... ... 0B0 --- 0B1 ---\n"
        "rank 1  ... 1F0 1F1 ... ... ... 1B0 --- 1B1 --- ... ...\n"
        "rank 2  ... ... 2F0 2F1 2B0 --- 2B1 --- ... ... ... ...\n");
  CHECK(draw_text(timeline, 3) ==
        "rank 0  0F0 0F1 ...\n"
        "rank 1  ... 1F0 1F1\n"
        "rank 2  ... ... 2F0\n"
        "and 9 more columns, of 1 s each\n");
}

TEST_CASE("draw_text: the round dance", "[draw]") {
  auto drawn = [](const std::string& name) {
    std::ifstream file(PARAGRAD_SOURCE_DIR "/tests/parallel/plans/" + name + ".plan");
    std::ostringstream text;
    text << file.rdbuf();
    return draw_text(simulate_unverified(parse(text.str()), {}));
  };
  CHECK(drawn("cyclic_v2_data") ==
        "rank 0  0F0 1F0 2F0 2B0 1B0 0B0 0F3 1F3 2F3 2B3 1B3 0B3 ... ... ... ...\n"
        "rank 1  ... ... 0F1 1F1 2F1 2B1 1B1 0B1 0F4 1F4 2F4 2B4 1B4 0B4 ... ...\n"
        "rank 2  ... ... ... ... 0F2 1F2 2F2 2B2 1B2 0B2 0F5 1F5 2F5 2B5 1B5 0B5\n");
  CHECK(drawn("cyclic_v2_model") ==
        "rank 0  0F0 ... ... ... ... 0B0 0F3 ... ... ... ... 0B3 ... ... ... ...\n"
        "rank 1  0F1 ... ... ... ... ... ... 0B1 0F4 ... ... ... ... 0B4 ... ...\n"
        "rank 2  0F2 ... ... ... ... ... ... ... ... 0B2 0F5 ... ... ... ... 0B5\n"
        "rank 3  ... 1F0 ... ... 1B0 1F2 ... ... 1B2 1F4 ... ... 1B4 ... ... ...\n"
        "rank 4  ... 1F1 ... ... ... ... 1B1 1F3 ... ... 1B3 1F5 ... ... 1B5 ...\n"
        "rank 5  ... ... 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5 ... ...\n");
}

TEST_CASE("draw_text: steps that take time, and ten ranks", "[draw]") {
  Costs slow_step;
  slow_step.step = {2};
  Timeline timeline = simulated("data", {.width = 11, .microbatches = 1}, slow_step);
  std::string text = draw_text(timeline);
  CHECK_THAT(text,
             Catch::StartsWith("rank 0   0F0  0B0  0S   ----\nrank 1   0F1  0B1  0S   ----\n"));
  CHECK_THAT(text, Catch::EndsWith("rank 10  0F10 0B10 0S   ----\n"));
}

TEST_CASE("draw: a timeline in which nothing takes time is refused", "[draw]") {
  CHECK_THROWS_WITH(draw_text({}), Contains("takes time") && Contains("0 records"));
  CHECK_THROWS_WITH(draw_svg({}), Contains("takes time"));
  CHECK_THROWS_WITH(draw_html({"", {}, {{"empty", {}}}, {}, {}, {}}), Contains("takes time"));
  Timeline outside{1, {{1, Lane::compute, parse_instruction("0F0v0"), 0, 1, 0}}};
  CHECK_THROWS_WITH(draw_svg(outside), Contains("0F0v0 of rank 1"));
  CHECK_THROWS_WITH(draw_text(two_by_two(), 0), Contains("at least 1 column"));
  CHECK(json::parse(draw_trace({}))["traceEvents"].empty());
}

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
  Timeline timeline = simulated("gpipe", layout);
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
    return std::pair{count(svg, "fill=\"#fff\">1</text>"), count(svg, "font-size=\"8\">10</text>")};
  };
  CHECK(labels(9) == std::pair<std::size_t, std::size_t>{4, 0});
  CHECK(labels(12) == std::pair<std::size_t, std::size_t>{4, 0});  // wide: two digits fit
  std::string narrow = draw_svg(simulated("gpipe", {.stages = 2, .microbatches = 80}));
  for (const char* micro : {"1", "10", "79"})
    CHECK(count(narrow, " font-size=\"8\">" + std::string(micro) + "</text>") == 4);
  std::string narrower = draw_svg(simulated("gpipe", {.stages = 2, .microbatches = 110}));
  for (const char* micro : {"1", "10", "109"})
    CHECK(count(narrower, "fill=\"#fff\">" + std::string(micro) + "</text>") == 0);
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
    for (int version = 5; version < 5 + version_colors; ++version)
      fills.insert(cell_color({.op = op, .version = version}).fill);
  CHECK(fills.size() == 2 * version_colors);

  std::string svg = draw_svg(two_by_two());
  for (int version : {0, 1}) {
    std::string fill = cell_color({.op = Op::forward, .version = version}).fill;
    CHECK(count(svg, "fill=\"" + fill + "\"><title>") > 0);
  }
}

TEST_CASE("draw_svg: what is too large is cut, and the figure says so", "[draw]") {
  std::string tall = draw_svg(simulated("data", {.width = 100}));
  CHECK_THAT(tall, Contains("Drawn: the first 64 of 100 ranks.") && !Contains("rank 64"));
  check_markup(tall);
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
  Costs costs;
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

TEST_CASE("a breakdown's table has seconds and shares, in columns", "[draw]") {
  const TimeParts parts{2, 0.5, 1.25, 0.25e-3, 1e-12};
  const Table table = breakdown_table("Time", {{"a rank", parts}, {"none", {}}});
  CHECK(print(table) ==
        "Time\n"
        "        compute      update          waiting         point-to-point     collectives\n"
        "a rank  2 s (53.3%)  500 ms (13.3%)  1.25 s (33.3%)  250 µs (0.00667%)  0\n"
        "none    0            0               0               0                  0\n");
  Breakdown time{1, std::vector<TimeParts>(16, parts)};
  CHECK(rows_of(time).size() == 17);
  CHECK(rows_of(time).back().second.total() == Approx(16 * parts.total()));
  time.ranks.push_back(parts);
  CHECK(rows_of(time).size() == 1);
  CHECK(to_json(time)["ranks"].size() == 17);
}

TEST_CASE("draw_html: a page begins with its note, and shows tables", "[draw]") {
  Report report{"A run", {{"ranks", "2"}}, {{"simulated", two_by_two()}}, {}, {}, {}};
  CHECK_THAT(draw_html(report), !Contains("class=\"note\"") && !Contains("<table"));
  report.note = "2 ranks & 1 core";
  report.tables = {{"Where", {{"", "x"}, {"row", "<1>"}}}};
  const std::string page = draw_html(report);
  CHECK_THAT(page, Contains("<h1>A run</h1>\n<p class=\"note\">2 ranks &amp; 1 core</p>\n"));
  CHECK_THAT(page, Contains("<h2>Where</h2>\n<table>\n<tr><th></th><th>x</th></tr>\n"
                            "<tr><th>row</th><td>&lt;1&gt;</td></tr>\n</table>"));
}

TEST_CASE("draw_trace: a slice a record, and no two overlap on a thread", "[draw]") {
  Timeline timeline = two_by_two();
  json events = json::parse(draw_trace(timeline))["traceEvents"];
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  std::map<int, std::string> processes;
  for (const json& event : events) {
    if (event["ph"] == "X")
      threads[{event["pid"], event["tid"]}].push_back({event["ts"], event["dur"]});
    else if (event["name"] == "process_name")
      processes[event["pid"]] = event["args"]["name"];
  }
  std::size_t slices = 0;
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    slices += spans.size();
    for (std::size_t i = 1; i < spans.size(); ++i)
      CHECK(spans[i - 1].first + spans[i - 1].second <= spans[i].first + 1e-3);
  }
  CHECK(slices == timeline.records.size());
  CHECK(processes ==
        std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}, {2, "rank 2"}, {3, "rank 3"}});
}

TEST_CASE("draw_trace: what a slice and a counter say", "[draw]") {
  Timeline timeline{1, {{0, Lane::message, parse_instruction("0a5>3"), 0.25, 0.5, 77}}};
  std::vector<MemorySample> memory = {{0, 0, "weights", 10}, {0, 0.5, "gradients", 20}};
  json events = json::parse(draw_trace(timeline, memory))["traceEvents"];
  json slice, last;
  for (const json& event : events) {
    if (event["ph"] == "X") slice = event;
    last = event;
  }
  CHECK(slice["name"] == "0a5>3");
  CHECK(slice["ts"] == 250000);
  CHECK(slice["dur"] == 250000);
  CHECK(slice["args"]["bytes sent"] == 77);
  CHECK(slice["args"]["what"] == "sends the output of stage 0 for microbatch 5 to rank 3");
  CHECK(last["ph"] == "C");
  CHECK(last["args"] == json{{"weights", 10}, {"gradients", 20}});
  CHECK_NOTHROW(json::parse(draw_trace(timeline, {{0, 0, "bad \xff text", 1}})));
}

TEST_CASE("draw_trace: a slice's category is its operation", "[draw]") {
  const std::map<std::string, std::string> expected{
      {"0F0v0", "forward"}, {"0B0v0", "backward"}, {"0Sv1", "step"},     {"0Da0", "drop"},
      {"0a0>1", "send"},    {"0a0<1", "recv"},     {"0Rv1@0", "reduce"}, {"0R1", "fold"},
      {"Rnv1@0", "norm"},   {"0Gwv1@0", "gather"}};
  for (const auto& [word, category] : expected) {
    const Instruction x = parse_instruction(word);
    const Timeline timeline{1, {{0, operation(x).lane(), x, 0, 1, 0}}};
    const json events = json::parse(draw_trace(timeline))["traceEvents"];
    std::vector<std::string> categories;
    for (const json& event : events)
      if (event["ph"] == "X") categories.push_back(event["cat"]);
    CHECK(categories == std::vector{category});
  }
}

TEST_CASE("draw_html: all parts, escaped, without a network", "[draw]") {
  const std::string evil = "</script><b>&\"'";
  Report report;
  report.title = evil;
  report.facts = {{evil, evil}};
  report.panels = {{evil, two_by_two()}, {"simulated", two_by_two()}};
  report.curves = {{evil, evil, evil, {{evil, {1, 2}, {3, 4}}, {"validation", {2}, {5}}}}};
  report.memory = {{0, 0, evil, 1000}, {1, 1, "weights", 2000}};
  report.traffic = traffic(report.panels[0].timeline);
  report.traffic.push_back({0, evil, 5});
  report.sent = {{0, parse_instruction("0a0>1"), 1, 5000}};
  std::string page = draw_html(report);
  CHECK(count(page, "<b>") == 0);
  CHECK(count(page, "</script>") == 1);
  CHECK_THAT(page, Contains("largest peak of a rank: 2 kB"));
  CHECK(count(page, escape(evil)) >= 9);
  CHECK(count(page, "http") == count(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK_THAT(page, !Contains("src=") && !Contains("@import") && !Contains("url("));
  std::vector<std::string> figures = figures_in(page);
  CHECK(figures.size() == 7);  // two timelines, a curve, memory of two ranks, sent, traffic
  for (const std::string& figure : figures)
    check_markup(figure.substr(0, figure.find("</section")));
}

TEST_CASE("draw_html: less than 1 kB sent is no chart", "[draw]") {
  auto page = [](std::int64_t bytes) {
    return draw_html({"", {}, {}, {}, {}, {{0, "norms", bytes}, {1, "norms", 8}}});
  };
  CHECK_THAT(page(991), !Contains("Bytes sent"));
  CHECK_THAT(page(992), Contains("Bytes sent"));
}

TEST_CASE("draw_html: activations of all ranks, and bytes over time", "[draw]") {
  Report report;
  report.panels = {{"measured", two_by_two()}};
  report.memory = {{0, 0, "activations", 1000}, {0, 1, "activations", 3000},
                   {0, 2, "activations", 0},    {0, 4, "activations", 0},
                   {1, 0, "weights", 9000},     {1, 1.5, "activations", 2000}};
  report.traffic = {{0, "activations", 5000}};
  report.sent = {{0, parse_instruction("0a0>1"), 1, 3000},
                 {0, parse_instruction("0a1>1"), 2, 2000}};
  std::string page = draw_html(report);
  CHECK_THAT(page, Contains("Activations of all ranks together"));
  CHECK_THAT(page, Contains("peak 5 kB, 2.25 kB on average over time"));
  CHECK_THAT(page, Contains("measured, bars of 1.5 s; the mean forward or backward takes 1.5 s"));
  report.memory.resize(0);
  report.sent.resize(0);
  page = draw_html(report);
  CHECK_THAT(page, !Contains("together") && !Contains("over time") && Contains("Bytes sent"));
}

TEST_CASE("draw_html: panels share the scale of time", "[draw]") {
  Timeline slow = two_by_two();
  for (Record& record : slow.records) record.start *= 2, record.end *= 2;
  std::string page = draw_html({"", {}, {{"slow", slow}, {"fast", two_by_two()}}, {}, {}, {}});
  const std::string name = "data-scale=\"";
  std::vector<std::string> scales;
  for (auto at = page.find(name); at != page.npos; at = page.find(name, at + 1))
    scales.push_back(page.substr(at, page.find('"', at + name.size()) - at));
  REQUIRE(scales.size() == 2);
  CHECK(scales[0] == scales[1]);
}

TEST_CASE("draw_html: an empty report is a page with a title", "[draw]") {
  std::string page = draw_html({"nothing yet", {}, {}, {}, {}, {}});
  CHECK_THAT(page, Contains("<h1>nothing yet</h1>") && !Contains("<svg") && !Contains("<section"));
}

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

TEST_CASE("memory_chart: a column shows its highest moment", "[draw]") {
  std::vector<MemorySample> samples = {{0, 0, "weights", 1000},
                                       {1, 0, "weights", 9000},
                                       {0, 1, "gradients", 500},
                                       {0, 1.001, "gradients", 0},
                                       {0, 3, "weights", 2000}};
  CHECK(peak_memory(samples) == 9000);
  std::string svg = memory_chart(samples, 0, 9000, 3);
  check_markup(svg);
  CHECK_THAT(svg, Contains("rank 0, 1 s: 1.5 kB in all\ngradients: 500 B\nweights: 1 kB"));
  CHECK_THAT(svg, Contains("rank 0, 1.01 s: 1 kB in all"));
  CHECK_THAT(svg, Contains("rank 0, 2.99 s: 2 kB in all"));
}

TEST_CASE("memory_total: ranks in any order, one category", "[draw]") {
  std::vector<MemorySample> samples = {{0, 0, "activations", 100}, {0, 2, "activations", 300},
                                       {0, 3, "activations", 0},   {0, 2, "weights", 7000},
                                       {1, 1, "activations", 50},  {1, 2, "activations", 10},
                                       {1, 4, "activations", 0}};
  MemoryTotal total = memory_total(samples, "activations");
  CHECK(total.levels ==
        std::vector<std::pair<double, double>>{{0, 100}, {1, 150}, {2, 310}, {3, 10}, {4, 0}});
  CHECK(total.peak == 310);
  CHECK(total.mean == (100 + 150 + 310 + 10) / 4.0);
  CHECK(memory_total(samples, "gradients").peak == 0);
  std::string svg = memory_total_chart(total, "activations", 4);
  check_markup(svg);
  CHECK_THAT(svg, Contains(">peak 310 B</text>"));
  CHECK_THAT(svg, Contains("all ranks, 1 s: 150 B of activations"));
  CHECK_THAT(svg, Contains("all ranks, 3.99 s: 10 B of activations"));
}

TEST_CASE("flow_chart: a bar a slot, a part a kind", "[draw]") {
  std::vector<Sending> sent = {{0, parse_instruction("0a0>1"), 0.5, 1000},
                               {1, parse_instruction("0g0>0"), 0.9, 500},
                               {1, parse_instruction("0t1>0"), 1.5, 0},
                               {0, parse_instruction("0a1>1"), 3, 2000}};
  std::string svg = flow_chart(sent, 1, 3);
  check_markup(svg);
  CHECK_THAT(svg, Contains("from 0 µs: 1.5 kB begin to be sent\nactivation gradients: 500 B"));
  CHECK_THAT(svg, Contains("from 1 s: 0 B begin to be sent<"));
  CHECK_THAT(svg, Contains("from 3 s: 2 kB begin to be sent\n"));  // at the very end
  CHECK_THAT(svg, !Contains("turns"));
  CHECK(slot_length(0.5, 150) == 0.5);
  CHECK(slot_length(0.5, 150.1) == 1);
  CHECK(slot_length(2, 1) == 2);
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

TEST_CASE("charts: a long legend has several lines, inside the chart", "[draw]") {
  std::vector<MemorySample> samples;
  for (int i = 0; i < 12; ++i)
    samples.push_back({0, 0, "a category, number " + std::to_string(i), 1});
  std::string svg = memory_chart(samples, 0, 12, 1);
  check_markup(svg);
  CHECK_THAT(svg, Contains("viewBox=\"0 -54 560 324\"") && Contains("translate(62 -54)"));
  std::vector<NamedColor> colors;
  for (const MemorySample& sample : samples) colors.push_back({sample.category, "#123456"});
  Legend lines = legend(colors, 484);
  CHECK(lines.height == 80);  // three of 159 pixels in each line
  CHECK(count(lines.svg, "rect class=\"message\" x=\"0\"") == 4);
  CHECK(legend({colors[0]}, 10).height == 20);
}

TEST_CASE("traffic: what ranks sent, by kind", "[draw]") {
  Timeline timeline = two_by_two();
  std::int64_t sum = 0;
  std::set<std::string> kinds;
  for (const Traffic& part : traffic(timeline)) {
    sum += part.bytes;
    kinds.insert(part.kind);
  }
  CHECK(sum == timeline.bytes());
  CHECK(kinds == std::set<std::string>{"activations", "activation gradients", "reductions"});
  CHECK_THAT(traffic_chart({{3, "activations", 1500}, {3, "weights", 500}}),
             Contains("rank 3: 1.5 kB of activations") && Contains(">2 kB<"));
}

TEST_CASE("figure: instructions in words", "[draw]") {
  auto words = [](const char* text) { return describe(parse_instruction(text)); };
  CHECK(words("2F5v1") == "forward of microbatch 5 on stage 2, with weights of version 1");
  CHECK(words("2W5v1") ==
        "backward, gradient of the weights, of microbatch 5 on stage 2, with weights of version 1");
  CHECK(words("2Sv2") == "update of stage 2: makes version 2");
  CHECK(words("2Da5") == "drops the activations of stage 2 for microbatch 5");
  CHECK(words("2Dpv1") == "drops the gradient sum of stage 2 for version 1");
  CHECK(words("2g5<1") == "receives the gradient of stage 2's output for microbatch 5 from rank 1");
  CHECK(words("2Rv1@0") == "adds the gradient sum of stage 2 for version 1 over group 0");
  CHECK(words("2R5") == "adds its own to the gradient sum of stage 2 up to microbatch 5");
  CHECK(words("Rnv1@0") == "adds the norm of update 1 over group 0");
  CHECK(words("2Gwv1@0") == "gathers version 1 of stage 2 in group 0");
}

TEST_CASE("figure: numbers, units and ticks", "[draw]") {
  CHECK(seconds_text(0.00125) == "1.25 ms");
  CHECK(seconds_text(2e-7) == "0.2 µs");
  CHECK(seconds_text(0) == "0 µs");
  CHECK(seconds_text(999.6) == "1000 s");
  CHECK(seconds_text(8320) == "8320 s");
  CHECK(seconds_text(9999.4) == "9999 s");
  CHECK(seconds_text(9999.6) == "2 h 47 min");
  CHECK(seconds_text(36000 - 1) == "10 h 0 min");
  CHECK(bytes_text(2e12) == "2000 GB");
  CHECK(bytes_text(12.5e6) == "12.5 MB");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(999700) == "1 MB");
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(3, 3, 5) == std::vector<double>{3});
  CHECK(ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(number(-0.0001) == "0");
  CHECK(number(1200) == "1200");
  CHECK(escape("<a href='x'>&\"") == "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
}
