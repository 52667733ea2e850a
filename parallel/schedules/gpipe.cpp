// GPipe: in every step all forwards, then all backwards; one version of the weights.
// Chapter 06; Huang et al. 2019, "GPipe".
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet gpipe]
static Plan gpipe(const Layout& layout) {
  return flushed_plan(layout, [](Row& row, int stage, int step, const std::vector<int>& micros) {
    for (int micro : micros) row.push_back(forward(stage, micro, step));
    for (int micro : micros) row.push_back(backward(stage, micro, step));
  });
}
// [end snippet]

extern const Schedule gpipe_schedule{.name = "gpipe", .make = gpipe};

}  // namespace plangrad::parallel
