// ZB-H1: a pipeline whose backwards come in two parts. A stage first computes the gradient of its
// input (I), for which the stage before waits. The gradients of its weights (W) come later, in time
// in which 1F1B is idle.
// Chapter 14; Qi et al. 2024, "Zero Bubble Pipeline Parallelism".
#include <deque>

#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {
namespace {

// [snippet zb_h1]
Plan zb_h1(const Layout& layout) {
  return pipeline_plan(layout, {/*keep*/ 1}, [&](Row& row, int replica, int stage) {
    const int ahead = layout.stages - 1 - stage;
    for (int step = layout.first; step < layout.first + layout.steps; ++step) {
      Row whole;  // the order of 1F1B, with backwards in one part
      append_1f1b(whole, stage, layout.micros(replica, step), ahead, [&](int) { return step; });
      std::deque<Instruction> later;  // weight parts; a stage leaves as many as its number
      auto append_first = [&] {
        row.push_back(later.front());
        later.pop_front();
      };
      for (Instruction x : whole) {
        if (goes_back(x)) x.what = Value::input_part;
        row.push_back(x);
        if (!goes_back(x)) continue;
        x.what = Value::weight_part;
        later.push_back(x);
        if (static_cast<int>(later.size()) > stage) append_first();
      }
      while (!later.empty()) append_first();
    }
  });
}
// [end snippet]

}  // namespace

// [snippet entry]
extern const Schedule zb_h1_schedule{.name = "zb-h1", .make = zb_h1};
// [end snippet]

}  // namespace paragrad::parallel
