// DualPipe and DualPipeV: a rank has one stage near the pipeline's end where it stands, and one far
// from it. Microbatches of two flows cross on it, and the work of one fills the other's bubble.
// Not here: doing a forward and a backward at the same time, which a plan can't say, and the sum
// over DualPipe's two copies, which lowering adds.
// Chapter 06; DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1, figure 5.
#include "parallel/schedules/flow.h"

namespace plangrad::parallel {
namespace {

/// The two flows of a rank, and the order of all weight parts that are left.
struct Crossing {
  Flow near, far;
  std::deque<Flow*> later = {};

  void input(Flow& flow) {
    flow.input();
    later.push_back(&flow);
  }
  void weight() {
    later.front()->weight();
    later.pop_front();
  }
};

/// The order of the rank that is `place` ranks away from the end where its near flow begins.
/// `depth`: the ranks until the flows have passed each other.
void append_crossing(Crossing& both, int microbatches, int place, int depth) {
  auto& [near, far, later] = both;
  const int n = std::max(microbatches, 2 * depth);  // as many as fill the pipeline
  const int rest = depth - place - 1;
  for (int i = 0; i < 2 * rest; ++i) near.forward();
  for (int i = 0; i <= place; ++i) near.forward(), far.forward();
  for (int i = 0; i < rest; ++i) both.input(far), both.weight(), far.forward();
  for (int i = 0; i < n - 2 * depth + place + 1; ++i)
    near.forward(), far.backward(), far.forward(), near.backward();
  for (int i = 0; i < rest; ++i) far.backward(), far.forward(), near.backward();
  for (int i = 0; i <= place; ++i) {  // the second half of these in parts
    const int half = (place + 1) / 2;
    i > half || (i == half && place % 2 == 1) ? both.input(far) : far.backward();
    i >= half ? both.input(near) : near.backward();
  }
  for (int i = 0; i < rest; ++i) both.weight(), both.input(near);
  while (!later.empty()) both.weight();
}

/// The model is folded: rank r of D has stages r and 2D - 1 - r.
Plan dual_pipe_v(const Layout& layout) {
  return flushed_plan(layout, [&](Row& row, int rank, int step, const std::vector<int>& micros) {
    const std::vector<int> stages = layout.stages_of(rank);
    Crossing both{{row, stages[0], micros, step}, {row, stages[1], micros, step}};
    append_crossing(both, layout.microbatches, rank, layout.depth());
  });
}

/// Two copies of the model lie head to tail: rank r of D has stages r and D - 1 - r. Half of the
/// microbatches enter at rank 0, the others at rank D - 1.
Plan dual_pipe(const Layout& layout) {
  const int depth = layout.depth(), half = (layout.microbatches + 1) / 2;
  return flushed_plan(layout, [&](Row& row, int rank, int step, const std::vector<int>& all) {
    const std::vector<int> stages = layout.stages_of(rank);
    const bool begins_down = rank < depth / 2;
    const Flow down(row, stages[0], {all.begin(), all.begin() + half}, step);
    const Flow up(row, stages[1], {all.begin() + half, all.end()}, step);
    Crossing both{begins_down ? down : up, begins_down ? up : down};
    append_crossing(both, half, begins_down ? rank : depth - 1 - rank, depth / 2);
  });
}

void check_halves(const Layout& layout) {
  PG_CHECK(layout.stages % 2 == 0, "dualpipe needs an even number of --stages, as flows from both ",
           "ends meet between two ranks; got ", layout.stages);
  PG_CHECK(layout.microbatches > 1, "dualpipe needs at least 2 --microbatches, one from each end");
}

}  // namespace

extern const Schedule dual_pipe_schedule{.name = "dualpipe",
                                         .make = dual_pipe,
                                         .chunks = 2,
                                         .placement = Placement::both_ways,
                                         .check = check_halves};

extern const Schedule dual_pipe_v_schedule{
    .name = "dualpipe-v", .make = dual_pipe_v, .chunks = 2, .placement = Placement::v};

}  // namespace plangrad::parallel
