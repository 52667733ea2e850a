// GPipe: in every step all forwards, then all backwards; one version of the weights.
// Chapter 06; Huang et al. 2019, "GPipe".
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

// [snippet gpipe]
Plan gpipe(const Layout& layout) {
  return pipeline_plan(layout, {/*keep*/ 1}, [&](Row& row, int replica, int stage) {
    for (int step = layout.first; step < layout.first + layout.steps; ++step) {
      for (int micro : layout.micros(replica, step)) row.push_back(forward(stage, micro, step));
      for (int micro : layout.micros(replica, step)) row.push_back(backward(stage, micro, step));
    }
  });
}
// [end snippet]

}  // namespace

extern const Schedule gpipe_schedule{.name = "gpipe", .make = gpipe};

}  // namespace plangrad::parallel
