// A timeline in Chrome's trace format: a process per rank, a thread for its computations, and one
// for each message under way at once, since slices of one thread must not overlap.
// Chapter 06; source: "Trace Event Format", Google.
#include <nlohmann/json.hpp>

#include <map>
#include <set>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"

namespace paragrad::parallel {
namespace {

using nlohmann::json;

json metadata(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json slice(const Record& record, int thread) {
  const Instruction& x = record.instruction;
  json arguments = {{"what", describe(x)}, {"bytes sent", record.bytes}};
  if (x.stage >= 0) arguments["stage"] = x.stage;
  if (x.micro >= 0) arguments["microbatch"] = x.micro;
  if (x.version >= 0) arguments["version"] = x.version;
  return {{"ph", "X"},
          {"name", print(x)},
          {"cat", name_of(x.op)},
          {"pid", record.rank},
          {"tid", thread},
          {"ts", record.start * 1e6},  // microseconds
          {"dur", (record.end - record.start) * 1e6},
          {"args", arguments}};
}

}  // namespace

std::string draw_trace(const Timeline& timeline, const std::vector<MemorySample>& memory) {
  json events = json::array();
  for (int rank = 0; rank < timeline.ranks; ++rank) {
    events.push_back(metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    events.push_back(metadata("thread_name", rank, 0, "compute"));
  }
  std::set<std::pair<int, int>> lanes;
  std::vector<int> slots = message_slots(timeline);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Record& record = timeline.records[i];
    int thread = record.lane == Lane::compute ? 0 : 1 + slots[i];
    events.push_back(slice(record, thread));
    if (thread > 0 && lanes.insert({record.rank, thread}).second)
      events.push_back(metadata("thread_name", record.rank, thread,
                                thread == 1 ? "messages" : "messages " + std::to_string(thread)));
  }
  // A counter event holds all categories of its rank, which viewers stack.
  std::map<int, json> live;
  for (const MemorySample& sample : memory) {
    live[sample.rank][sample.category] = sample.bytes;
    events.push_back({{"ph", "C"},
                      {"name", "memory"},
                      {"pid", sample.rank},
                      {"ts", sample.seconds * 1e6},
                      {"args", live[sample.rank]}});
  }
  json trace = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace paragrad::parallel
