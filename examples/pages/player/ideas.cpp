// The table of ideas. A test compares each formula with the simulator. Chapters 05 to 09.
#include "examples/pages/player/ideas.h"

#include <fmt/format.h>

namespace plangrad::examples {
namespace {

using Formula = std::optional<BubbleFormula>;

constexpr const char* alike = "; stages alike, messages free";
constexpr const char* equal_parts = "; forward, I and W equally long";

/// Names what the letters D and M of a formula stand for, with their values in this layout.
std::string ranks_and_microbatches(const Layout& layout, const char* of_ranks = "") {
  return fmt::format("D = {}{}, M = {} of a replica", counted(layout.depth(), "rank"), of_ranks,
                     counted(layout.microbatches, "microbatch"));
}

/// Names what the letters D, M and U of a formula stand for, with their values in this layout.
std::string with_updates(const Layout& layout, const char* of_ranks = "") {
  return ranks_and_microbatches(layout, of_ranks) + ", U = " + counted(layout.steps, "update");
}

/// idle / (work + idle), in forwards and backwards of one stage.
BubbleFormula share(const std::string& letters, int idle, int work, const std::string& where) {
  return {letters, fmt::format("{} / ({} + {})", idle, work, idle), where,
          static_cast<double>(idle) / (work + idle)};
}

/// Every update fills the pipeline and drains it.
Formula of_flush(const Schedule&, const Layout& layout) {
  return share("(D - 1) / (M + D - 1)", layout.depth() - 1, layout.microbatches,
               ranks_and_microbatches(layout) + alike);
}

/// A pipeline of V small stages on each rank fills in the time of D of them.
Formula of_chunks(const Schedule&, const Layout& layout) {
  if (layout.microbatches % layout.depth() != 0) return std::nullopt;
  return share("(D - 1) / (V M + D - 1)", layout.depth() - 1, layout.chunks * layout.microbatches,
               fmt::format("{}, V = {} of a rank{}", ranks_and_microbatches(layout),
                           counted(layout.chunks, "stage"), alike));
}

/// The pipeline fills at the beginning and drains at the end, whatever the number of updates U.
Formula of_full_pipeline(const Schedule& schedule, const Layout& layout) {
  const int fills = schedule.updates_per_microbatch ? layout.steps : layout.microbatches + 1;
  if (fills < layout.depth() && layout.depth() > 1) return std::nullopt;
  return share("(D - 1) / (U M + D - 1)", layout.depth() - 1, layout.steps * layout.microbatches,
               with_updates(layout) + alike);
}

/// W fills what 1F1B leaves empty, save for one forward a rank.
Formula of_zb_h1(const Schedule&, const Layout& layout) {
  if (layout.microbatches < layout.depth()) return std::nullopt;
  return share("(D - 1) / (3 M + D - 1)", layout.depth() - 1, 3 * layout.microbatches,
               ranks_and_microbatches(layout) + equal_parts);
}

/// With enough microbatches weight parts fill every update's bubble but the run's own.
Formula of_zero_bubble(const Schedule&, const Layout& layout) {
  const int depth = layout.depth(), stages = layout.chunks;
  if (layout.microbatches < 2 * depth - 1 || layout.clip) return std::nullopt;
  return share(fmt::format("(D - 1) / ({} U M + D - 1)", 3 * stages), depth - 1,
               3 * stages * layout.steps * layout.microbatches,
               with_updates(layout, stages > 1 ? " of two stages" : "") + equal_parts);
}

/// Two flows halve what fills and drains in each update; folded, the model has twice the stages.
Formula of_dual_pipe(const Schedule&, const Layout& layout) {
  const int depth = layout.depth(), copies = layout.copies();
  if (layout.microbatches < 2 * depth) return std::nullopt;
  const char* letters = copies == 2 ? "(D / 2 - 1) / (3 M + D / 2 - 1)" : "(D - 1) / (6 M + D - 1)";
  return share(letters, depth / copies - 1, 6 / copies * layout.microbatches,
               ranks_and_microbatches(layout) + equal_parts);
}

/// Each rank begins two time steps after the one before it, and ends as late.
Formula of_round_dance(const Schedule&, const Layout& layout) {
  const Setting setting = layout.setting;
  if (setting == Setting::model || setting == Setting::one_device || layout.gap != 2)
    return std::nullopt;
  return share("(N - 1) / (U N + N - 1)", layout.stages - 1, layout.steps * layout.stages,
               fmt::format("N = {} (ranks, stages and microbatches), U = {}; forward and "
                           "backward equally long",
                           layout.stages, counted(layout.steps, "update")));
}

Formula of_no_bubble(const Schedule&, const Layout&) {
  return BubbleFormula{"0", "0", "every rank computes by itself; sums that take no time", 0};
}

constexpr Idea ideas[] = {
    {"data",
     "Every rank computes the whole model on its own part of the batch; ranks add up their "
     "gradients.",
     "Li et al. 2020, PyTorch Distributed", of_no_bubble},
    {"gpipe",
     "A batch is cut into microbatches, so that all stages can work at once: first all forwards, "
     "then all backwards.",
     "Huang et al. 2019, GPipe", of_flush},
    {"1f1b",
     "A stage begins its backwards as soon as it can, so it keeps few activations; before every "
     "update the pipeline still runs empty.",
     "Narayanan et al. 2021, PipeDream-Flush", of_flush},
    {"message-driven",
     "A rank runs whatever has arrived first, forward or backward, in no fixed order.",
     "Singh and Bhatele 2022, AxoNN", of_flush},
    {"interleaved",
     "A rank holds several small stages that are not neighbours, so the pipeline fills sooner.",
     "Narayanan et al. 2021, Megatron-LM", of_chunks},
    {"looped-bfs",
     "A rank takes all microbatches through one of its stages, then all through its next one, so "
     "that sums travel early.",
     "Lamy-Poirier 2023, Breadth-First Pipeline Parallelism", of_chunks},
    {"zb-h1",
     "A backward comes in two parts. Another stage waits for the first, the gradient of the input; "
     "the second, of the weights, fills time in which 1F1B is idle.",
     "Qi et al. 2024, Zero Bubble Pipeline Parallelism", of_zb_h1},
    {"zb-h2",
     "Backwards in two parts and more activations: the weight parts of one update fill the bubble "
     "before the next.",
     "Qi et al. 2024, Zero Bubble Pipeline Parallelism", of_zero_bubble},
    {"recycle",
     "Ranks are lost, and their microbatches go to the ranks that hold the same stage in other "
     "replicas; weight parts of backwards wait until the pipeline idles. Those that are left are "
     "numbered anew.",
     "Gandhi et al. 2024, ReCycle", nullptr /* a greedy order has no formula */},
    {"zb-v",
     "The model lies on the ranks like a V, so the first rank also has the last stage and begins "
     "its backwards at once.",
     "Qi et al. 2024, Pipeline Parallelism with Controllable Memory", of_zero_bubble},
    {"dualpipe",
     "Microbatches flow through the ranks from both ends at once, and one flow fills the bubble of "
     "the other; each rank keeps two stages.",
     "DeepSeek-AI 2024, DeepSeek-V3", of_dual_pipe},
    {"dualpipe-v",
     "DualPipe folded in half: both directions meet on a model that lies like a V, so no stage is "
     "held twice.",
     "DeepSeek-AI 2024, DeepSeek-V3", of_dual_pipe},
    {"2bw",
     "The pipeline does not drain between updates. A backward must read the weights that its "
     "forward read, so a rank keeps two versions; gradients are one update old.",
     "Narayanan et al. 2021, PipeDream-2BW", of_full_pipeline},
    {"pipedream",
     "Every microbatch makes an update, and the pipeline does not drain between them; a rank keeps "
     "a version for each microbatch that is on its way.",
     "Narayanan et al. 2019, PipeDream", of_full_pipeline},
    {"paci",
     "The pipeline does not drain between updates and a rank keeps one version, which they "
     "overwrite; so a backward may read newer weights than its forward.",
     "arXiv 2606.07881, Paci", of_full_pipeline},
    {"cyclic-v1",
     "Each rank begins two time steps after the one before, as in a round dance, so that in every "
     "time step each stage is computed once; gradients are one update old.",
     "Fournier and Oyallon 2024, Cyclic Data Parallelism", of_round_dance},
    {"cyclic-v2",
     "Each rank begins two time steps after the one before, as in a round dance, and reads new "
     "weights wherever they exist already.",
     "Fournier and Oyallon 2024, Cyclic Data Parallelism", of_round_dance},
};

}  // namespace

const Idea* find_idea(const std::string& schedule) {
  const auto* found = std::ranges::find(ideas, schedule, &Idea::schedule);
  return found == std::end(ideas) ? nullptr : found;
}

std::optional<BubbleFormula> bubble_formula(const std::string& schedule, const Layout& asked) {
  const Idea* idea = find_idea(schedule);
  if (!idea || !idea->bubble || asked.recompute) return std::nullopt;
  const Schedule& found = find_schedule(schedule);
  Layout layout = with_defaults(found, asked);
  if (found.updates_per_microbatch) layout.steps *= std::exchange(layout.microbatches, 1);
  if (layout.depth() < 1) return std::nullopt;  // more chunks than stages: there is no such plan
  return idea->bubble(found, layout);
}

}  // namespace plangrad::examples
