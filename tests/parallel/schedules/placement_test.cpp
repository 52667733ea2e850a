// Where stages are: placements, which layouts schedules take, and where steps stand in rows of
// ranks with several stages.

#include "parallel/plan/lifetimes.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;
using Ints = std::vector<int>;

namespace {

std::vector<Ints> stages_by_rank(const Layout& layout) {
  std::vector<Ints> all;
  for (int rank = 0; rank < layout.depth(); ++rank) all.push_back(layout.stages_of(rank));
  return all;
}

Layout placed(int stages, int chunks, Placement placement) {
  return {.stages = stages, .chunks = chunks, .placement = placement};
}

/// The plan's held stages, without the tied one.
std::vector<Ints> held(const Plan& plan) {
  std::vector<Ints> all;
  for (const std::set<int>& stages : held_stages(plan))
    all.emplace_back(stages.begin(), stages.lower_bound(plan.stages));
  return all;
}

}  // namespace

TEST_CASE("placements: which rank holds which stages", "[schedule]") {
  CHECK(stages_by_rank(placed(4, 1, Placement::straight)) == std::vector<Ints>{{0}, {1}, {2}, {3}});
  CHECK(stages_by_rank(placed(4, 4, Placement::straight)) == std::vector<Ints>{{0, 1, 2, 3}});
  CHECK(stages_by_rank(placed(4, 2, Placement::straight)) == std::vector<Ints>{{0, 1}, {2, 3}});
  CHECK(stages_by_rank(placed(6, 3, Placement::loop)) == std::vector<Ints>{{0, 2, 4}, {1, 3, 5}});
  CHECK(stages_by_rank(placed(6, 2, Placement::v)) == std::vector<Ints>{{0, 5}, {1, 4}, {2, 3}});
  CHECK(stages_by_rank(placed(6, 3, Placement::v)) == std::vector<Ints>{{0, 3, 4}, {1, 2, 5}});
  CHECK(stages_by_rank(placed(4, 2, Placement::both_ways)) ==
        std::vector<Ints>{{0, 3}, {1, 2}, {2, 1}, {3, 0}});
  for (const Placement placement : {Placement::straight, Placement::loop, Placement::v})
    for (int chunks : {1, 2, 3})
      for (int rank = 0; rank < 4; ++rank)
        for (const Layout layout = placed(4 * chunks, chunks, placement);
             int stage : layout.stages_of(rank))
          CHECK(layout.rank_of(stage) == rank);
}

TEST_CASE("placements: every schedule's plan holds the stages that its layout says", "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int width : {1, 2}) {
      const Layout asked{.stages = 4, .width = width, .microbatches = 4, .tied = true};
      const Layout layout = with_defaults(*schedule, asked);
      std::vector<Ints> expected;
      for (int replica = 0; replica < width; ++replica)
        for (Ints stages : stages_by_rank(layout)) {
          std::ranges::sort(stages);
          expected.push_back(stages);
        }
      INFO(name);
      CHECK(held(make_plan(name, asked)) == expected);
    }
}

TEST_CASE("placements: layouts that a schedule can't have are refused, with one that it can have",
          "[schedule]") {
  CHECK_THROWS_WITH(
      make_plan("interleaved", {.stages = 5}),
      Contains("--stages 5: the schedule interleaved holds 2 stages on each rank, so it ") &&
          Contains("can't have 5; use --stages 6, or other --chunks"));
  CHECK_THROWS_WITH(make_plan("1f1b", {.stages = 4, .chunks = 2}),
                    Contains("--chunks 2: the schedule 1f1b has 1 stage on a rank; leave"));
  CHECK_THROWS_WITH(make_plan("zb-v", {.stages = 4, .placement = Placement::loop}),
                    Contains("zb-v has a placement of its own"));
  CHECK_THROWS_WITH(make_plan("dualpipe", {.stages = 3, .microbatches = 2}),
                    Contains("even number of --stages"));
  CHECK_THROWS_WITH(make_plan("dualpipe", {.stages = 2}), Contains("at least 2 --microbatches"));
  CHECK(takes("dualpipe", {.stages = 2, .microbatches = 2, .zero = 1}));  // two holders of a stage
  CHECK_FALSE(takes("interleaved", {.stages = 4, .zero = 1}));
  CHECK(takes("interleaved", {.stages = 6, .chunks = 3}));
  CHECK(takes("looped-bfs", {.stages = 6, .chunks = 3, .placement = Placement::v}));
}

TEST_CASE("steps of ranks with several stages wait for nothing that waits for them", "[schedule]") {
  int plans = 0;
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int zero : {0, 1})
      for (bool clip : {false, true})
        for (bool tied : {false, true}) {
          const Layout layout{.stages = 4,
                              .width = 2,
                              .microbatches = 4,
                              .steps = 3,
                              .clip = clip,
                              .tied = tied,
                              .zero = zero};
          if (!takes(name, layout)) continue;  // pipedream
          CAPTURE(name, zero, clip, tied);
          CHECK(verify(make_plan(name, layout)).facts().capacity == 0);
          ++plans;
        }
  CHECK(plans > 100);
  // Eager where a rank alone decides, although it holds two stages.
  const Plan alone = make_plan("zb-v", {.stages = 4, .microbatches = 4, .steps = 2});
  const Row& row = alone.rows[0];
  const auto step = std::ranges::find_if(row, makes_version);
  CHECK(goes_back(*(step - 1)));
  CHECK((step - 1)->stage == step->stage);
}

TEST_CASE("ranks with several stages: every number of microbatches makes a plan that can't hang",
          "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int chunks : {2, 3})
      for (int depth : {1, 2, 3, 4, 5})
        for (int microbatches = 1; microbatches <= 2 * depth + 1; ++microbatches) {
          const bool chooses = schedule->has(chunks_field);
          Layout layout{.stages = depth * (chooses ? chunks : schedule->chunks),
                        .microbatches = microbatches,
                        .steps = 2,
                        .chunks = chooses ? chunks : 0};
          if (schedule->placement == Placement::both_ways) layout.stages = depth;
          if (!is_chunked(name) || !takes(name, layout)) continue;
          CAPTURE(name, chunks, depth, microbatches);
          CHECK(verify(make_plan(name, layout)).facts().capacity == 0);
        }
}
