// Orders: the list scheduler against schedules, the search against schedules, published times and
// all orders, the bound against both, and training with what is found against one rank. Chapter 06.
#include <random>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/planner/order.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;
using Catch::Matchers::WithinRel;

namespace {

std::vector<int> one_each(int ranks) {
  std::vector<int> place;
  for (int rank = 0; rank < ranks; ++rank) place.push_back(rank);
  return place;
}

/// Two stages on each rank, the second ones backwards.
std::vector<int> folded(int ranks) {
  std::vector<int> place = one_each(ranks);
  for (int rank = ranks; rank-- > 0;) place.push_back(rank);
  return place;
}

/// What 1F1B's ranks keep, in microbatches.
std::vector<int> as_1f1b(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(ranks - rank);
  return all;
}

double seconds(const Plan& plan, const Costs& costs) {
  return simulate(verify(plan), costs).makespan();
}

Costs costs_of(double forward, double backward) {
  return {.forward = {forward}, .backward = {backward}};
}

/// An update of random sizes and costs, whose ranks may keep the least that suffices, or more.
OrderTask random_task(std::mt19937& random, int most_stages, int most_microbatches) {
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  OrderTask task;
  const int ranks = 1 + below(3);
  task.place = one_each(ranks);
  for (int more = below(most_stages - ranks + 1); more > 0; --more)
    task.place.insert(task.place.begin() + below(task.stages()), below(ranks));
  task.microbatches = 1 + below(most_microbatches);
  task.split = below(2) == 0;
  task.costs = {.forward = {}, .backward = {}, .bandwidth = 4, .activation_bytes = {}};
  const bool has_messages = below(2) == 0;
  task.costs.latency = has_messages ? 0.5 : 0;
  task.kept.clear();
  for (int stage = 0; stage < task.stages(); ++stage) {
    task.costs.forward.push_back(1 + below(3));
    task.costs.backward.push_back(2 + below(4));
    task.costs.activation_bytes.push_back(has_messages ? below(5) : 0);
    task.kept.push_back(1 + below(2));
  }
  if (below(4) > 0) task.most.assign(ranks, below(3));
  for (int stage = 0; !task.most.empty() && stage < task.stages(); ++stage)
    task.most[task.place[stage]] += task.kept[stage];
  return task;
}

/// The shortest order that begins with this one and ends after `end`, by trying all.
double shortest(const std::vector<Stream>& streams, const PartialOrder& order, double end = 0) {
  if (order.is_complete()) return end;
  double least = PartialOrder::never;
  for (int i = 0; i < std::ssize(streams); ++i) {
    const double start = order.start(i);
    if (start < order.now() || start == PartialOrder::never) continue;
    PartialOrder next = order;
    next.add(i);
    least = std::min(least, shortest(streams, next, std::max(end, start + streams[i].seconds)));
  }
  return least;
}

/// Losses and weights, by stage, of two updates with these rows, on their ranks or on one.
auto trained(const OrderTask& task, const Plan& rows, bool on_one_rank) {
  const GptConfig config = small_gpt(false);
  Training training(gpt(config), task.stages());
  training.clip = 0;
  training.learning_rate = {1e-2, 1e-3, 2, 5};
  SmallBatches batches(config);
  const Plan plan = plan_of_rows(rows);
  const Layout whole{
      .stages = task.stages(), .microbatches = task.microbatches, .steps = 2, .chunks = 0};
  const Outcome outcome =
      on_one_rank ? run_on_one_rank(training, plans_of("data", whole), batches, cpu_device())
                  : run_by_engine(training, {verify(plan), verify(later_plan(plan, 1))}, batches);
  std::map<int, std::vector<double>> weights;
  for (const auto& [place, values] : outcome.weights) weights[place.second] = values;
  return std::pair(outcome.losses, weights);
}

}  // namespace

TEST_CASE("order: rules of schedules list their rows", "[order]") {
  for (const auto& [ranks, microbatches] : {std::pair{2, 4}, {4, 8}, {6, 12}, {8, 24}, {4, 2}})
    for (const double backward : {1.0, 2.0, 3.0}) {
      CAPTURE(ranks, microbatches, backward);
      const Layout layout{.stages = ranks, .microbatches = microbatches};
      OrderTask task{
          .place = one_each(ranks), .microbatches = microbatches, .costs = costs_of(1, backward)};
      auto listed = [&](const char* letters, const std::vector<int>& ahead) {
        return plan_of_rows(list_order(task, letters, ahead));
      };
      CHECK(print(listed("BF", as_1f1b(ranks))) == print(make_plan("1f1b", layout)));
      CHECK(print(listed("FB", {})) == print(make_plan("gpipe", layout)));
      task.split = true;
      task.most = {1.0 * ranks};
      CHECK(seconds(listed("FIW", as_1f1b(ranks)), task.costs) ==
            seconds(make_plan("zb-h1", layout), task.costs));
    }
}

TEST_CASE("order: what is listed ends and keeps no more than it may", "[order]") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    OrderTask task = random_task(random, 8, 10);
    task.tied = i % 3 == 0;
    task.clip = i % 2 == 0;
    task.costs.weight_bytes = {8};
    task.costs.step = {1.0 * (i % 4)};
    CAPTURE(i, task.place, task.kept, task.most, task.microbatches);
    for (const char* letters : {"BFIW", "FBIW", "WIFB"}) {
      const Plan rows =
          list_order(task, letters, i % 2 ? std::vector<int>{1 + i % 3} : one_each(0));
      const std::vector<double> kept = most_kept(task, rows);
      for (int rank = 0; rank < task.ranks(); ++rank) CHECK(kept[rank] <= task.most_of(rank));
      CHECK(search_order(task, 1).bound <= seconds(plan_of_rows(rows), task.costs) * (1 + 1e-9));
    }
  }
}

TEST_CASE("order: the search finds the times of schedules under their memory", "[order]") {
  for (const double backward : {1.0, 2.0}) {
    const Layout layout{.stages = 4, .microbatches = 8};
    OrderTask task{one_each(4), 8, false, costs_of(1, backward), {1}, {4, 3, 2, 1}};
    const FoundOrder whole = search_order(task, 100);
    CHECK(whole.seconds == seconds(make_plan("1f1b", layout), task.costs));
    CHECK(whole.seconds == whole.bound);
    task.split = true;
    task.most = {4};
    const FoundOrder split = search_order(task, 100);
    CHECK(split.seconds == seconds(make_plan("zb-h1", layout), task.costs));
    CHECK(split.seconds == split.bound);
  }
  // V-Half and V-Min: 9.43% and 18.6% of bubble by their authors' code, in 48 s of work.
  OrderTask task{folded(4), 8, true, costs_of(1, 2), {0.125}, {0.75}};
  CHECK(search_order(task, 1000).seconds == 53);
  task.most = {0.5};
  CHECK(search_order(task, 1000).seconds == 59);
}

TEST_CASE("order: stages that differ take less than in any schedule", "[order]") {
  // The ends of the model have more to do; ranks keep what 1F1B's keep.
  OrderTask task{one_each(4), 4, true, {.forward = {3, 1, 1, 3}, .backward = {6, 2, 2, 6}}};
  task.most = {4, 3, 2, 1};
  const FoundOrder found = search_order(task, 100);
  CHECK(found.seconds == found.bound);
  double named = PartialOrder::never;
  for (const Schedule* each : schedules()) {
    if (each->cyclic || each->updates_per_microbatch || each->chunks != 1) continue;
    const Plan plan = make_plan(each->name, {.stages = 4, .microbatches = 4});
    const std::vector<double> kept = most_kept(task, plan);
    if (plan.overlaps_updates() || !std::ranges::equal(kept, task.most, std::less_equal()))
      continue;
    named = std::min(named, seconds(plan, task.costs));
  }
  CHECK(named > 1.1 * found.seconds);
  CHECK(named < PartialOrder::never);
}

TEST_CASE("order: of small updates the search finds the shortest of all orders", "[order]") {
  std::mt19937 random(2);
  int searched = 0;
  for (int i = 0; i < 80; ++i) {
    const OrderTask task = random_task(random, 3, 3);
    if (task.stages() * task.microbatches * (task.split ? 3 : 2) > 12) continue;
    CAPTURE(i, task.place, task.kept, task.most, task.microbatches, task.split);
    const std::vector<Stream> streams = streams_of(task);
    const double least = shortest(streams, PartialOrder(task, streams));
    const FoundOrder found = search_order(task, 1000);
    CHECK(found.bound <= least * (1 + 1e-9));
    CHECK(found.seconds >= least * (1 - 1e-9));
    // Messages can wait for each other, which only the simulator knows.
    CHECK_THAT(found.seconds, WithinRel(least, task.costs.latency > 0 ? 0.1 : 1e-9));
    ++searched;
  }
  CHECK(searched > 20);
}

TEST_CASE("order: a search gives the same again, and its progress ends", "[order]") {
  const OrderTask task{folded(2), 4, true, costs_of(1, 3), {1}, {3}};
  int last = 0;
  const FoundOrder one = search_order(task, 50, [&](int cells, int all, const FoundOrder& best) {
    last = all - cells;
    CHECK(best.seconds >= best.bound);
  });
  CHECK(last == 1);
  CHECK(search_order(task, 50).rows == one.rows);
  CHECK(one.states > 0);
}

TEST_CASE("order: training by an order that was found has the bits of one rank", "[order]") {
  const Costs uneven{.forward = {3, 1, 1, 3}, .backward = {6, 2, 2, 6}};
  for (const OrderTask& task : {OrderTask{one_each(4), 4, true, uneven, {1}, {4, 3, 2, 1}},
                                OrderTask{folded(2), 4, true, costs_of(1, 3), {1}, {3}},
                                OrderTask{{0, 0, 0, 1}, 4, false, costs_of(1, 2), {1}, {4, 1}}}) {
    const FoundOrder found = search_order(task, 50);
    CHECK(trained(task, found.rows, false) == trained(task, found.rows, true));
  }
}

TEST_CASE("order: what can't be is refused with what suffices", "[order]") {
  OrderTask task{folded(2), 4, true, costs_of(1, 2), {1, 2, 3, 4}, {5, 4}};
  CHECK_THROWS_WITH(search_order(task, 10),
                    Contains("rank 1 may keep 4, and a microbatch that passes its stages keeps 5; "
                             "let it keep at least that"));
  task.most = {5, 5};
  CHECK(search_order(task, 10).seconds > 0);
  task.most = {5, 5, 5};
  CHECK_THROWS_WITH(list_order(task, "IFW"), Contains("3 values of what ranks may keep"));
  task.most = {}, task.kept = {1, 2};
  CHECK_THROWS_WITH(list_order(task, "IFW"), Contains("2 values of what stages keep for 4 stages"));
  task.kept = {1}, task.costs.forward = {1, -2, 1, 1};
  CHECK_THROWS_WITH(search_order(task, 1), Contains("forward is -2"));
  task.costs.forward = {1}, task.microbatches = 342;
  CHECK_THROWS_WITH(search_order(task, 10), Contains("4104 cells is too large to search; 4096"));
  CHECK_THROWS_WITH(list_order(task, "IFW", {1, 2, 3}), Contains("3 values of how far"));
  task.place = {0, 2, 2, 2};
  CHECK_THROWS_WITH(list_order(task, "IFW"), Contains("no stage lies on rank 1"));
  task.place.assign(1025, 0);
  CHECK_THROWS_WITH(list_order(task, "IFW"), Contains("at most 1024 stages and 65536 forwards"));
  task.place = {0, 4};
  CHECK_THROWS_WITH(list_order(task, "IFW"), Contains("2 stages on 5 ranks"));
}
