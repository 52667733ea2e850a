// ZB-V: the model lies on the ranks like a V, so rank r of D has stages r and 2D - 1 - r. The first
// rank also has the last stage, and backwards begin there at once. With backwards in two parts,
// there is no bubble if forwards and both parts take equally long, in the memory of 1F1B.
// Chapter 06; Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", section 3.
#include "parallel/schedules/flow.h"

namespace plangrad::parallel {

static void append_zb_v(Flow& down, Flow& up, int microbatches, int rank, int depth) {
  const int n = std::max(microbatches, 2 * depth - 1);  // as many as fill the pipeline
  const int rest = depth - rank;                        // ranks from here to the fold of the V
  for (int i = 0; i < 2 * rest - 1; ++i) down.forward();
  for (int i = 0; i < rank; ++i) up.forward(), down.forward();
  for (int i = 0; i < rest; ++i) up.forward(), up.input(), up.weight();
  for (int i = 0; i < n - depth; ++i) {
    down.forward(), down.input(), down.weight();
    up.forward(), up.input(), up.weight();
  }
  for (int i = 0; i < rank; ++i) down.input(), up.input();
  for (int i = 0; i < rest; ++i) down.input(), down.weight();
  while (up.has_weights()) up.weight();
  while (down.has_weights()) down.weight();
}

static Plan zb_v(const Layout& layout) {
  return flushed_plan(layout, [&](Row& row, int rank, int step, const std::vector<int>& micros) {
    const std::vector<int> stages = layout.stages_of(rank);
    Flow down(row, stages[0], micros, step), up(row, stages[1], micros, step);
    append_zb_v(down, up, layout.microbatches, rank, layout.depth());
  });
}

extern const Schedule zb_v_schedule{
    .name = "zb-v", .make = zb_v, .chunks = 2, .placement = Placement::v, .note = note_on_norms};

}  // namespace plangrad::parallel
