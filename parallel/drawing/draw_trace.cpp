// Timelines in Chrome's trace format. A rank of a timeline is a process; its computations are a
// thread, and so is each message under way at once, since slices of a thread must not overlap.
// Not here: pages (examples/pages/). Chapter 06; source: "Trace Event Format", Google.
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

using nlohmann::json;

/// Microseconds with three digits behind the point; the viewer's own unit is as fine.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

json metadata(const char* what, int process, int thread, const char* key, const json& value) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{key, value}}}};
}

/// An instruction as a slice's name: "forward 5 of stage 2, version 1".
std::string plain_name(const Instruction& x) {
  if (uses_weights(x))
    return fmt::format("{} {} of stage {}, version {}", computation_kind(x), x.micro, x.stage,
                       x.version);
  return describe(x);
}

class Trace {
 public:
  /// Adds a group of processes, one for each rank of the panel's timeline.
  void add(const Panel& panel) {
    const Timeline& timeline = panel.timeline;
    const std::string title = panel.title.empty() ? "" : ", " + panel.title;
    for (int rank = 0; rank < timeline.ranks; ++rank) {
      const int process = processes_ + rank;
      append(metadata("process_name", process, 0, "name", fmt::format("rank {}{}", rank, title)));
      append(metadata("process_sort_index", process, 0, "sort_index", process));
      append(metadata("thread_name", process, 0, "name", "computations"));
    }
    const std::vector<int> slots = message_slots(timeline);
    std::set<std::pair<int, int>> named;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Record& record = timeline.records[i];
      if (drops(record.instruction)) continue;  // which takes no time
      const int thread = thread_of(record, slots[i]);
      if (thread > 0 && named.insert({record.rank, thread}).second)
        append(metadata("thread_name", processes_ + record.rank, thread, "name",
                        thread == 1 ? "messages" : "messages " + std::to_string(thread)));
      add_slice(record, thread);
    }
    const std::vector<int> others = other_ends(timeline);
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (others[i] < 0 || sends(timeline.records[i].instruction)) continue;
      add_flow("s", timeline.records[others[i]], slots[others[i]]);
      add_flow("f", timeline.records[i], slots[i]);
      ++flows_;
    }
    processes_ += timeline.ranks;
  }

  /// Adds a counter for each rank and category. Of the changes within a slot of time, it shows the
  /// highest value and the last. Slots of many ranks are longer, so that a viewer opens the file.
  void add(const std::vector<MemorySample>& memory) {
    double seconds = 0;
    int ranks = 1;
    for (const MemorySample& sample : memory) ranks = std::max(ranks, sample.rank + 1);
    const double slots = std::clamp(1600.0 / ranks, 10.0, 200.0);
    std::map<std::pair<int, std::string>, std::vector<MemorySample>> counters;
    for (const MemorySample& sample : memory) {
      seconds = std::max(seconds, sample.seconds);
      counters[{sample.rank, sample.category}].push_back(sample);
    }
    for (const auto& [name, samples] : counters)
      for (std::size_t from = 0, to = 0; from < samples.size(); from = to) {
        double end = std::floor(samples[from].seconds / seconds * slots + 1) / slots * seconds;
        for (to = from + 1; to < samples.size() && samples[to].seconds < end;) ++to;
        const auto peak = std::max_element(samples.begin() + from, samples.begin() + to,
                                           [](auto& a, auto& b) { return a.bytes < b.bytes; });
        add_counter(*peak);
        if (samples[to - 1].bytes != peak->bytes) add_counter(samples[to - 1]);
      }
  }

  std::string text() const {
    return R"({"displayTimeUnit":"ms","traceEvents":[)" + events_ + "]}\n";
  }

 private:
  /// Adds an event as text, a twentieth of its JSON's memory.
  void append(const json& event) {
    if (!events_.empty()) events_ += ',';
    events_ += event.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  static int thread_of(const Record& record, int slot) {
    return record.lane == Lane::compute ? 0 : 1 + slot;
  }

  void add_slice(const Record& record, int thread) {
    const Instruction& x = record.instruction;
    json arguments = {{"in the plan", print(x)}};
    if (record.bytes > 0) arguments["bytes sent"] = record.bytes;
    if (x.stage >= 0) arguments["stage"] = x.stage;
    if (x.micro >= 0) arguments["microbatch"] = x.micro;
    if (x.version >= 0) arguments["version"] = x.version;
    append({{"ph", "X"},
            {"name", plain_name(x)},
            {"cat", name_of(x.op)},
            {"pid", processes_ + record.rank},
            {"tid", thread},
            {"ts", microseconds(record.start)},
            {"dur", microseconds(record.end) - microseconds(record.start)},
            {"args", arguments}});
  }

  /// Adds an end of an arrow: where a send begins, or just before its receive's slice ends.
  void add_flow(const char* end, const Record& record, int slot) {
    const double at = *end == 's' ? record.start : std::max(record.start, record.end - 1e-9);
    json event = {{"ph", end},
                  {"name", message_kind(record.instruction)},
                  {"cat", "message"},
                  {"id", flows_},
                  {"pid", processes_ + record.rank},
                  {"tid", thread_of(record, slot)},
                  {"ts", microseconds(at)}};
    if (*end == 'f') event["bp"] = "e";  // the slice that encloses it, not the next one
    append(event);
  }

  void add_counter(const MemorySample& sample) {
    append({{"ph", "C"},
            {"name", sample.category},
            {"pid", sample.rank},
            {"ts", microseconds(sample.seconds)},
            {"args", {{"bytes", sample.bytes}}}});
  }

  std::string events_;
  int processes_ = 0, flows_ = 0;
};

}  // namespace

std::string draw_trace(const std::vector<Panel>& panels, const std::vector<MemorySample>& memory) {
  Trace trace;
  for (const Panel& panel : panels) trace.add(panel);
  trace.add(memory);
  return trace.text();
}

}  // namespace plangrad::parallel
