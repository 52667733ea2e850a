// Every exhibit is the same work: each of four ranks computes for 48 s if it is never idle.
// Chapters 06 and 07.
#include "examples/programs/plan_poster.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/drawing/poster.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {
namespace {

using namespace parallel;

/// A schedule on a poster, in the order of the poster, with a layout of 16 microbatches in all.
struct Exhibit {
  const char *schedule, *name, *idea;
  Layout layout;
  bool among_six = false;
};

const std::vector<Exhibit>& exhibits() {
  const Layout flushing{.stages = 4, .microbatches = 8, .steps = 2},
      chunked{.stages = 8, .microbatches = 8, .steps = 2},
      delayed{.stages = 4, .microbatches = 4, .steps = 4},
      each{.stages = 4, .microbatches = 1, .steps = 16},
      replicas{.stages = 4, .width = 4, .microbatches = 1, .steps = 4};
  Layout sharded = replicas;
  sharded.zero = 3;
  static const std::vector<Exhibit> all = {
      {"gpipe", "GPipe", "All forwards, then all backwards", flushing, true},
      {"1f1b", "1F1B", "The same bubble, a third of the memory", flushing, true},
      {"zb-h1", "Zero bubble H1", "Backward in two parts: one of them fills gaps", flushing, true},
      {"2bw", "PipeDream-2BW", "Never drains; two versions of the weights", delayed, true},
      {"cyclic-v2", "Cyclic data parallel", "Ranks in turn: memory and messages stay even", delayed,
       true},
      {"data", "ZeRO 3", "A quarter of the state on each rank; weights come and go", sharded, true},
      {"message-driven", "Message-driven", "A rank takes what has come first", flushing},
      {"interleaved", "Interleaved 1F1B", "Two stages a rank: half the bubble", chunked},
      {"looped-bfs", "Looped, breadth first", "Two stages a rank, one after the other", chunked},
      {"zb-h2", "Zero bubble H2", "More forwards ahead: no bubble inside", flushing},
      {"zb-v", "Zero bubble V", "Two stages a rank, there and back", chunked},
      {"dualpipe", "DualPipe", "Pipelines from both ends; weights are held twice", flushing},
      {"dualpipe-v", "DualPipe V", "Half of DualPipe: weights are held once", chunked},
      {"pipedream", "PipeDream", "An update for each microbatch, a version for each", each},
      {"paci", "PACI", "One version; a backward may read newer weights than its forward", delayed},
      {"cyclic-v1", "Cyclic v1", "Cyclic, with gradients one update old", delayed},
      {"data", "Data parallel", "All ranks peak together", replicas}};
  return all;
}

std::string number_of(double value) { return fmt::format("{:.3g}", value); }

PosterEntry entry_of(const Exhibit& exhibit, bool all) {
  const VerifiedPlan plan = verify(make_plan(exhibit.schedule, exhibit.layout));
  Costs costs;
  costs.forward = {4.0 / plan.plan().stages};
  costs.backward = {8.0 / plan.plan().stages};
  PosterEntry entry{exhibit.name,          exhibit.idea,         {},
                    simulate(plan, costs), plan.plan().per_step, plan.plan().stages};
  int most = 0;
  for (const Level& level : activations_alive(entry.timeline)) most = std::max(most, level.count);
  const int versions = *std::ranges::max_element(plan.facts().live_versions);
  entry.facts = {{fmt::format("{:.0f}%", 100 * entry.timeline.bubble()), "idle"},
                 {number_of(1.0 * most / plan.plan().stages), "kept"},
                 {std::to_string(versions), versions == 1 ? "version" : "versions"}};
  if (const int drift = plan.facts().drift; drift > 0)
    entry.facts.push_back({std::to_string(drift), "drift"});
  if (all) entry.facts.push_back({std::to_string(plan.facts().staleness), "stale"});
  return entry;
}

}  // namespace

std::string schedule_poster(bool all) {
  Poster poster;
  poster.title = all ? "Schedules side by side" : "Six ways to train on four ranks";
  poster.explanation =
      "Each picture is a plan: a text of four rows, which plangrad verifies, simulates and trains "
      "with. All compute 16 microbatches; a backward takes as long as two forwards, messages take "
      "no time. Blue: forward. Orange, yellow, pink: backward and its parts. Lighter: newer "
      "weights. Vertical line: update. Hatched: idle. Grey area: activations alive on all ranks, "
      "whose peak is kept, in microbatches.";
  if (all)
    poster.explanation +=
        " White bar: first or second stage of a rank. Stale: updates between the weights that a "
        "gradient is taken at and those that it "
        "changes.";
  poster.cell = all ? 8 : 13;
  for (const Exhibit& exhibit : exhibits())
    if (all || exhibit.among_six) poster.entries.push_back(entry_of(exhibit, all));
  return draw_poster(poster);
}

}  // namespace plangrad::examples
