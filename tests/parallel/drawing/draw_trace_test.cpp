// Traces: what viewers need to show slices, arrows and counters.
#include <nlohmann/json.hpp>

#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;
using nlohmann::json;

namespace {

json events_of(const std::vector<Panel>& panels, const std::vector<MemorySample>& memory = {}) {
  return json::parse(draw_trace(panels, memory))["traceEvents"];
}

/// The only slice of a timeline with one record.
json slice_of(const char* word, std::int64_t bytes = 0) {
  const Instruction x = parse_instruction(word);
  json found;
  for (const json& event : events_of({{"", {1, {{0, operation(x).lane(), x, 0.25, 0.5, bytes}}}}}))
    if (event["ph"] == "X") found = found.is_null() ? event : json("two slices");
  return found;
}

/// The slices of each thread, in the order of time.
using Span = std::pair<double, double>;  // its begin and end
std::map<std::pair<int, int>, std::vector<Span>> slices_of(const json& events) {
  std::map<std::pair<int, int>, std::vector<Span>> threads;
  for (const json& event : events)
    if (event["ph"] == "X")
      threads[{event["pid"], event["tid"]}].push_back(
          {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
  for (auto& [thread, spans] : threads) std::sort(spans.begin(), spans.end());
  return threads;
}

}  // namespace

TEST_CASE("draw_trace: a slice a record, and no two overlap on a thread", "[draw]") {
  const Timeline timeline = two_by_two();
  const auto threads = slices_of(events_of({{"", timeline}}));
  std::size_t slices = 0;
  for (const auto& [thread, spans] : threads) {
    slices += spans.size();
    for (std::size_t i = 1; i < spans.size(); ++i)
      CHECK(spans[i - 1].second <= spans[i].first + 1e-3);
  }
  CHECK(slices == timeline.records.size());
}

TEST_CASE("draw_trace: a group of processes for each panel, in this order", "[draw]") {
  const Timeline timeline = two_by_two();
  const json events = events_of({{"measured", timeline}, {"simulated", timeline}});
  std::map<int, std::string> names, order;
  for (const json& event : events) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["name"] == "process_sort_index")
      order[event["args"]["sort_index"]] = names[event["pid"]];
  }
  CHECK(order == std::map<int, std::string>{{0, "rank 0, measured"},
                                            {1, "rank 1, measured"},
                                            {2, "rank 2, measured"},
                                            {3, "rank 3, measured"},
                                            {4, "rank 0, simulated"},
                                            {5, "rank 1, simulated"},
                                            {6, "rank 2, simulated"},
                                            {7, "rank 3, simulated"}});
  const auto threads = slices_of(events);
  CHECK(threads.at({0, 0}) == threads.at({4, 0}));
}

TEST_CASE("draw_trace: an arrow leads from each send to its receive", "[draw]") {
  const Timeline timeline = two_by_two();
  const json events = events_of({{"measured", timeline}, {"simulated", timeline}});
  const auto threads = slices_of(events);
  std::map<int, std::vector<json>> flows;
  for (const json& event : events)
    if (event["ph"] == "s" || event["ph"] == "f") flows[event["id"]].push_back(event);
  const auto sent = std::count_if(timeline.records.begin(), timeline.records.end(),
                                  [](const Record& r) { return sends(r.instruction); });
  CHECK(flows.size() == 2 * static_cast<std::size_t>(sent));
  for (const auto& [id, ends] : flows) {
    REQUIRE(ends.size() == 2);
    CHECK((ends[0]["ph"] == "s" && ends[1]["ph"] == "f" && ends[1]["bp"] == "e"));
    CHECK(ends[0]["ts"] < ends[1]["ts"]);
    CHECK(ends[0]["pid"] != ends[1]["pid"]);
    for (const json& end : ends) {  // it begins with a slice, or lies just before a slice's end
      const auto& spans = threads.at({end["pid"], end["tid"]});
      CHECK(std::ranges::any_of(spans, [&, at = end["ts"].get<double>()](const Span& span) {
        return end["ph"] == "s" ? at == span.first : std::abs(span.second - 0.001 - at) < 1e-4;
      }));
    }
  }
}

TEST_CASE("draw_trace: slices have plain names", "[draw]") {
  const json send = slice_of("0a5>3", 77);
  CHECK(send["name"] == "sends the output of stage 0 for microbatch 5 to rank 3");
  CHECK(send["ts"] == 250000);
  CHECK(send["dur"] == 250000);
  CHECK(send["args"] ==
        json{{"in the plan", "0a5>3"}, {"bytes sent", 77}, {"stage", 0}, {"microbatch", 5}});
  CHECK(slice_of("1F8v3")["name"] == "forward 8 of stage 1, version 3");
  CHECK(slice_of("1W8v3")["name"] == "backward, weight part 8 of stage 1, version 3");
  CHECK(slice_of("2Sv2")["name"] == "update of stage 2: makes version 2");
}

TEST_CASE("draw_trace: a counter for each category shows peaks, and changes alone", "[draw]") {
  const Timeline timeline{1, {{0, Lane::compute, parse_instruction("0F0v0"), 0, 1, 0}}};
  std::vector<MemorySample> memory = {{0, 0, "weights", 10}, {0, 1, "gradients", 20}};
  for (int i = 0; i < 100; ++i)  // within one slot of time
    memory.push_back({0, 0.5 + i * 1e-6, "stash", i == 50 ? 900 : i});
  std::vector<json> counters;
  for (const json& event : events_of({{"", timeline}}, memory))
    if (event["ph"] == "C")
      counters.push_back({event["name"], event["ts"], event["args"]["bytes"]});
  CHECK(counters == std::vector<json>{{"gradients", 1e6, 20},
                                      {"stash", 500050, 900},
                                      {"stash", 500099, 99},
                                      {"weights", 0, 10}});
  CHECK_NOTHROW(events_of({{"", timeline}}, {{0, 0, "bad \xff text", 1}}));
}

TEST_CASE("draw_trace: a slice's category is its operation", "[draw]") {
  const std::map<std::string, std::string> expected{
      {"0F0v0", "forward"}, {"0B0v0", "backward"}, {"0Sv1", "step"},
      {"0a0>1", "send"},    {"0a0<1", "recv"},     {"0Rv1@0", "reduce"},
      {"0R1", "fold"},      {"Rnv1@0", "norm"},    {"0Gwv1@0", "gather"}};
  for (const auto& [word, category] : expected) CHECK(slice_of(word.c_str())["cat"] == category);
  CHECK(slice_of("0Da0").is_null());  // takes no time
}
