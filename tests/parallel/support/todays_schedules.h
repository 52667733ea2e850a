// The schedules with several stages on a rank, backwards in two parts, two copies of the model, or
// drift, on two ranks a replica: what tests of their combinations share.
// Not here: the grid of all schedules (grid.h), which takes few of theirs.
#pragma once

#include "tests/parallel/support/ordinary_schedules.h"

namespace plangrad::tests {

struct Today {
  std::string schedule;
  parallel::Layout layout;
};

inline std::vector<Today> todays_schedules() {
  const parallel::Layout two{.stages = 2, .microbatches = 3, .steps = 2},
      four{.stages = 4, .microbatches = 2, .steps = 2},
      copies{.stages = 2, .microbatches = 4, .steps = 2};
  return {{"interleaved", four}, {"looped-bfs", four}, {"zb-h1", two},       {"zb-h2", two},
          {"zb-v", four},        {"dualpipe-v", four}, {"dualpipe", copies}, {"paci", two}};
}

/// A choice that can be combined with each of them, on two replicas.
struct Choice {
  std::string name;
  void (*make)(parallel::Layout&);
  bool changes_bits = true;

  /// Whether a run learns what it would without the choice. With drift a forward that is computed
  /// again reads the weights of its backward.
  bool keeps_bits(const std::string& schedule) const {
    return !changes_bits && (schedule != "paci" || name != "recompute");
  }
};

inline std::vector<Choice> choices() {
  using parallel::Layout, parallel::parse_codec;
  return {{"recompute", [](Layout& x) { x.recompute = true; }, false},
          {"ZeRO 1", [](Layout& x) { x.zero = 1; }, false},
          {"clip", [](Layout& x) { x.clip = true; }},
          {"tied", [](Layout& x) { x.tied = true; }},
          {"quantize:4", [](Layout& x) { x.codec = parse_codec("quantize:4"); }},
          {"topk:0.1, with error feedback", [](Layout& x) { x.codec = parse_codec("topk:0.1"); }},
          {"lowrank:2", [](Layout& x) { x.codec = parse_codec("lowrank:2"); }},
          {"channel topk:0.2", [](Layout& x) { x.channel = parse_codec("topk:0.2"); }},
          {"all", [](Layout& x) {
             x.recompute = x.clip = x.tied = true;
             x.zero = 1;
             x.codec = parse_codec("topk:0.1");
             x.channel = parse_codec("quantize:4");
           }}};
}

}  // namespace plangrad::tests
