// Rows that are printed can be lowered: what is said of them is comments. Chapter 06.
#include "examples/programs/plan_order.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "parallel/drawing/figure.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/planner/order.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::examples {

using namespace parallel;
using Json = nlohmann::json;

namespace {

struct OrderFlags {
  int stages = 0, microbatches = 1;          ///< stages 0: as many as `place` has
  std::vector<int> place = {};               ///< the rank of each stage; empty: stage s on rank s
  std::vector<double> kept = {}, most = {};  ///< kept empty: the model's bytes, or 1
  std::string priorities = "B,F";            ///< what the list scheduler prefers, in order
  std::vector<int> ahead = {};
  bool split = false;  ///< whether the search may split backwards
  int beam = 1000;

  /// Adds the flags of `plan order`, or else those of `plan rows`: also cuts, model and costs.
  void add_flags(Flags& flags, PlanRequest& request, bool searches);
  /// The rows of the list scheduler, as text.
  std::string listed(const PlanRequest& request) const;
  /// Searches an order, and tells how far it is in a line on stderr if that is a terminal.
  /// returns: rows, seconds, bound, kept, states, and the fastest schedule that keeps no more
  Json found(const PlanRequest& request) const;
  OrderTask task(const PlanRequest& request, bool split) const;
};

/// Adds a flag for numbers with commas between them, each at least `lowest`.
template <class T>
void add_list(Flags& flags, const char* name, std::vector<T>& list, double lowest,
              const std::string& what) {
  using Text = AsText<std::vector<T>>;
  auto read = [=](const std::string& word) { return Text::read(word, lowest, Text::most); };
  flags.taken(name, Text::sign, what, [=, &list](const std::string& word) { list = read(word); })
      .check(read)
      .show_default(what.find("(default: ") == what.npos ? Text::show(list) : "");
}

/// The letters of priorities, without commas.
std::string letters_of(const std::string& priorities) {
  std::string letters, sorted;
  for (const std::string& word : split(priorities, ',')) letters += word;
  sorted = letters;
  std::ranges::sort(sorted);
  PG_CHECK(sorted == "BF" || sorted == "FIW", "--priorities ", priorities, ": expected F and B, ",
           "or F with the two parts of a backward, I and W, as in B,F or I,F,W");
  return letters;
}

void OrderFlags::add_flags(Flags& flags, PlanRequest& request, bool searches) {
  flags.group(searches ? "Order" : "Rows");
  flags.whole("--stages", stages, 1, "parts of the model (default: as many as --place has values)");
  flags.whole("--microbatches", microbatches, 1, "microbatches of the update");
  add_list(flags, "--place", place, 0, "rank of each stage (default: stage s on rank s)");
  add_list(flags, "--most", most, 0,
           "the most that a rank may keep, in the unit of --kept: one value, or one per rank "
           "(default: no limit)");
  add_list(flags, "--kept", kept, 0,
           "what a stage keeps of a microbatch from its forward to the end of its backward, in any "
           "unit: one value, or one per stage (default: the bytes of --model; without it 1)");
  request.schedule.add_flags(flags, true, {"cuts", "clip", "tied"});
  if (searches) {
    flags.yes("--split", split, "split backwards into an input part, I, and a weight part, W");
    flags.whole("--beam", beam, 1, "orders that are continued at each step");
  } else {
    flags
        .words("--priorities", priorities, "X,X,...",
               "of the cells that are ready, which runs: F and B, or F, I and W")
        .show_default();
    add_list(flags, "--ahead", ahead, 1,
             "microbatches between their forward and their backward, or its input part, on a "
             "stage: one value, or one per rank (default: any number)");
  }
  request.model.add_flags(flags);
  flags.needs("--cuts", "--model");
  request.costs.add_flags(flags);
  if (searches) return;
  for (const char* of_updates : {"--step", "--weight-bytes", "--reduction", "--hosts"})
    flags.remove(of_updates);
}

OrderTask OrderFlags::task(const PlanRequest& request, bool split) const {
  const Costs costs = with_backward(request.costs.costs);
  const Layout& layout = request.schedule.layout;
  PG_CHECK(stages > 0 || !place.empty(), "give --stages N, or --place with the rank of each stage");
  PG_CHECK(stages <= OrderTask::most_stages, "--stages ", stages, ": an order has at most ",
           OrderTask::most_stages);
  PG_CHECK(stages == 0 || place.empty() || std::ssize(place) == stages, "--stages ", stages,
           " and a --place with ", place.size(),
           " values: leave out --stages, or mend one of them");
  PG_CHECK(split || (costs.input_part.empty() && costs.weight_part.empty()),
           "--input-part and --weight-part are times of split backwards: use --split with plan ",
           "order, and --priorities I,F,W with plan rows");
  OrderTask task{place, microbatches, split, costs, kept, most, layout.clip, layout.tied};
  if (place.empty()) {
    task.place.resize(stages);
    std::iota(task.place.begin(), task.place.end(), 0);
  }
  if (kept.empty()) task.kept = {1};
  if (request.model.model.empty()) return task;
  task.tied = request.model.is_tied(task.stages());
  PG_CHECK(task.tied || !layout.tied, "--tied: the first and last stage of ", request.model.model,
           " share no tensor; leave it out");
  const ModelCosts known = request.model.costs(task.without_cells(), layout, costs.machine.get());
  task.costs = with_model(costs, known, task.without_cells());
  if (!kept.empty()) return task;
  task.kept.clear();
  for (int stage = 0; stage < task.stages(); ++stage)
    task.kept.push_back(static_cast<double>(known.stages[stage].bytes.kept));
  return task;
}

std::string OrderFlags::listed(const PlanRequest& request) const {
  const std::string letters = letters_of(priorities);
  return print(list_order(task(request, letters.size() == 3), letters, ahead));
}

/// The fastest schedule that has the task's stages on its ranks, and keeps no more; null: none.
Json fastest_schedule(const OrderTask& task) {
  Json best;
  const auto is_part = [](const Instruction& x) { return x.what == Value::input_part; };
  for (const Schedule* each : schedules()) try {
      const Plan plan = make_plan(each->name, {.stages = task.stages(),
                                               .microbatches = task.microbatches,
                                               .clip = task.clip,
                                               .tied = task.tied});
      const std::vector<double> kept = most_kept(task, plan);
      bool fits = !each->cyclic && !each->updates_per_microbatch && !plan.overlaps_updates() &&
                  each->ranks == pipeline_ranks && plan.ranks() == task.ranks();
      for (const Row& row : plan.rows)
        fits = fits && (task.split || std::ranges::none_of(row, is_part));
      for (int stage = 0; fits && stage < task.stages(); ++stage)
        fits = holders(plan)[stage] == std::vector<int>{task.place[stage]};
      for (int rank = 0; fits && rank < task.ranks(); ++rank)
        fits = kept[rank] <= task.most_of(rank);
      if (!fits) continue;
      const double seconds = simulate(verify(plan), task.costs).makespan();
      if (best.is_null() || seconds < best["seconds"])
        best = {{"name", each->name}, {"seconds", seconds}};
    } catch (const autograd::Error&) {  // it has no such layout
    }
  return best;
}

Json OrderFlags::found(const PlanRequest& request) const {
  const OrderTask asked = task(request, split);
  FoundOrder found;
  {
    ProgressLine line;
    found = search_order(asked, beam, [&](int cells, int all, const FoundOrder& best) {
      line.show(fmt::format("{} of {} cells; the best order takes {}, none less than {}", cells,
                            all, seconds_text(best.seconds), seconds_text(best.bound)));
    });
  }
  return {{"rows", print(found.rows)}, {"seconds", found.seconds},
          {"bound", found.bound},      {"kept", most_kept(asked, found.rows)},
          {"states", found.states},    {"schedule", fastest_schedule(asked)}};
}

/// A search's result for people: rows, which `plan lower` reads, with sentences as comments.
///   limited: whether a rank has a most that it may keep
std::string order_words(const Json& found, bool limited) {
  const double seconds = found["seconds"], bound = found["bound"];
  auto above = [&](double more, double less) { return less > 0 ? 100 * (more / less - 1) : 0; };
  std::string words = found["rows"];
  words += fmt::format("# An update takes {}, and no order less than {}: ", seconds_text(seconds),
                       seconds_text(bound));
  words += above(seconds, bound) < 1e-6
               ? "none is faster.\n"
               : fmt::format("it is at most {:.3g}% above the fastest.\n", above(seconds, bound));
  words += fmt::format("# Ranks keep at most {:g}.\n",
                       fmt::join(found["kept"].get<std::vector<double>>(), " "));
  const Json& schedule = found["schedule"];
  if (schedule.is_null())
    return words + text("# No schedule has these stages on these ranks",
                        limited ? " and keeps no more" : "", ".\n");
  const double named = schedule["seconds"], more = above(named, seconds);
  return words + fmt::format("# Of {}, {} is the fastest: {}, {}.\n",
                             limited ? "the schedules that keep no more" : "all schedules",
                             schedule["name"].get<std::string>(), seconds_text(named),
                             std::abs(more) < 1e-6 ? "the same"
                             : more > 0            ? fmt::format("{:.1f}% more", more)
                                                   : fmt::format("{:.1f}% less", -more));
}

}  // namespace

Command rows_command() {
  const auto order = std::make_shared<OrderFlags>();
  return {
      "rows",
      "Prints rows of computations in which each rank runs what is ready.",
      {{"List the order of 1F1B",
        "plan rows --stages 4 --microbatches 8 --priorities B,F --ahead 4,3,2,1 | plan lower -"},
       {"Put two stages on each rank, and keep half of what 1F1B keeps",
        "plan rows --place 0,1,2,3,3,2,1,0 --microbatches 8 --priorities I,F,W --most 4"}},
      [=](Flags flags, PlanRequest& request) { order->add_flags(flags, request, false); },
      [=](const PlanRequest& request, const Flags&) { std::cout << order->listed(request); }};
}

Command order_command() {
  const auto order = std::make_shared<OrderFlags>();
  return {"order",
          "Searches rows of computations that take little time, though ranks keep little.",
          {{"Find an order of stages that differ",
            "plan order --stages 4 --microbatches 4 --split --most 4,3,2,1 --forward 3,1,1,3 "
            "--backward 6,2,2,6 > my.rows"},
           {"Complete and check it", "plan lower my.rows | plan verify -"}},
          [=](Flags flags, PlanRequest& request) {
            order->add_flags(flags, request, true);
            flags.group("Output");
            flags.yes("--json", request.json, "print the rows and the numbers as JSON");
          },
          [=](const PlanRequest& request, const Flags&) {
            const Json found = order->found(request);
            request.json ? print_json(found) : print_text(order_words(found, !order->most.empty()));
          }};
}

}  // namespace plangrad::examples
