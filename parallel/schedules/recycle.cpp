// ReCycle: pipelines that have lost ranks. The lost ranks' microbatches go to their peers, which
// hold the same stage in other replicas. Weight parts of backwards move into bubbles, so the peers'
// extra work partly fits into time in which pipelines idle. No stage moves to another rank.
// Chapter 15; Gandhi et al. 2024, "ReCycle: Resilient Training of Large DNNs using Pipeline
// Adaptation": adaptive pipelining and decoupled backpropagation. A greedy choice replaces the
// paper's integer program.
#include <charconv>

#include "parallel/schedules/plan_spec.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

/// The ranks that are left, in order, as ranks of whole pipelines (replica * stages + stage).
std::vector<int> ranks_left(const Layout& layout) {
  std::vector<int> left;
  for (int rank = 0; rank < pipeline_ranks(layout); ++rank)
    if (!std::ranges::count(layout.lost, rank)) left.push_back(rank);
  return left;
}

// [snippet shared_out]
/// The microbatches of an update that each rank computes, ascending, by rank of whole pipelines.
/// Replicas take microbatches in turn; so do the peers of lost ranks with what those leave.
std::vector<std::vector<int>> shared_out(const Layout& layout, int step) {
  std::vector<std::vector<int>> micros(pipeline_ranks(layout));
  const int begin = step * layout.per_step(), end = begin + layout.per_step();
  for (int stage = 0; stage < layout.stages; ++stage) {
    std::vector<int> peers;
    for (int rank : ranks_left(layout))
      if (rank % layout.stages == stage) peers.push_back(rank);
    std::size_t taken_over = 0;
    for (int micro = begin; micro < end; ++micro) {
      int rank = micro % layout.width * layout.stages + stage;
      if (std::ranges::count(layout.lost, rank)) rank = peers[taken_over++ % peers.size()];
      micros[rank].push_back(micro);
    }
  }
  return micros;
}
// [end snippet]

/// Finds the order of one update: in each time step, a rank computes a forward, or one of the two
/// parts of a backward. All take equally long, and messages take no time.
class Greedy {
 public:
  Greedy(const Layout& layout, int step) : layout_(layout), step_(step) {
    const std::vector<std::vector<int>> micros = shared_out(layout, step);
    for (int rank : ranks_left(layout)) work_.push_back({rank % layout.stages, micros[rank]});
  }

  /// Appends the computations to the rows of the ranks that are left.
  void append(std::vector<Row>& rows) {
    for (bool idle = false; !idle;) {
      std::vector<Instruction> now;
      for (const Work& work : work_) now.push_back(next(work));
      idle = true;
      for (std::size_t i = 0; i < work_.size(); ++i) {
        if (now[i].stage < 0) continue;
        finish(work_[i], now[i]);
        rows[i].push_back(now[i]);
        idle = false;
      }
    }
  }

 private:
  /// What a rank has done for its microbatches, which it takes in their order.
  struct Work {
    int stage = 0;
    std::vector<int> micros;
    std::size_t forwards = 0, inputs = 0, weights = 0;
  };

  // [snippet greedy]
  /// An input part comes first, as the stage before waits for it; then a forward, if the rank
  /// may keep activations of one more microbatch; else a weight part.
  Instruction next(const Work& work) const {
    const auto& [stage, micros, forwards, inputs, weights] = work;
    if (inputs < forwards &&
        (stage == layout_.stages - 1 || gradients_.contains({stage, micros[inputs]})))
      return backward_part(Value::input_part, stage, micros[inputs], step_);
    if (forwards < micros.size() && forwards - weights < most_kept() &&
        (stage == 0 || outputs_.contains({stage - 1, micros[forwards]})))
      return forward(stage, micros[forwards], step_);
    if (weights < inputs) return backward_part(Value::weight_part, stage, micros[weights], step_);
    return {};  // idle
  }
  // [end snippet]

  std::size_t most_kept() const {
    return layout_.in_flight > 0 ? layout_.in_flight : layout_.stages;
  }

  void finish(Work& work, const Instruction& x) {
    if (begins_pass(x)) {
      ++work.forwards;
      outputs_.insert({x.stage, x.micro});
    } else if (makes_input_gradient(x)) {
      ++work.inputs;
      gradients_.insert({x.stage - 1, x.micro});
    } else {
      ++work.weights;
    }
  }

  const Layout& layout_;
  int step_;
  std::vector<Work> work_;                             // of each rank that is left
  std::set<std::pair<int, int>> outputs_, gradients_;  // of stages' outputs: (stage, microbatch)
};

Plan recycle(const Layout& layout) {
  Plan plan = empty_plan(layout, static_cast<int>(ranks_left(layout).size()), {/*keep*/ 1});
  for (int step = layout.first; step < layout.first + layout.steps; ++step)
    Greedy(layout, step).append(plan.rows);
  place_steps(plan);
  return plan;
}

/// throws: Error if a rank is lost that is none, or all ranks of a stage are
void check_lost(const Layout& layout) {
  const int ranks = pipeline_ranks(layout);
  std::vector<int> left(layout.stages, layout.width);
  for (std::size_t i = 0; i < layout.lost.size(); ++i) {
    const int rank = layout.lost[i];
    PG_CHECK(rank >= 0 && rank < ranks, "--lost ", rank,
             ": the plan without losses has ranks 0 to ", ranks - 1);
    PG_CHECK(std::count(layout.lost.begin(), layout.lost.begin() + i, rank) == 0, "--lost ", rank,
             " is given twice");
    PG_CHECK(--left[rank % layout.stages] > 0, "--lost: no rank that holds stage ",
             rank % layout.stages, " is left, so its weights are lost. ",
             layout.width > 1 ? "Resume from a checkpoint, with fewer --stages or ranks"
                              : "Use a --data-parallel of at least 2");
  }
}

std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> found;
  for (const std::string& word : split(text, ',')) {
    int number = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    PG_CHECK(error == std::errc() && end == word.data() + word.size() && number >= 0,
             "ranks are whole numbers with commas between them, as 1,4; got \"", text, '"');
    found.push_back(number);
  }
  return found;
}

std::string print_ranks(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ","));
}

constexpr SpecField lost_field =
    row_as<AsParsed<std::vector<int>, ranks_in, print_ranks>, &PlanSpec::layout, &Layout::lost>(
        "lost",
        "ranks of the whole pipelines that are lost; the others take over their microbatches, "
        "and are numbered anew",
        {.sign = "N,N", .thing = "ranks to lose"});

}  // namespace

extern const Schedule recycle_schedule{.name = "recycle",
                                       .make = recycle,
                                       .ranks =
                                           [](const Layout& layout) {
                                             return pipeline_ranks(layout) -
                                                    static_cast<int>(layout.lost.size());
                                           },
                                       .fields = {&lost_field, &in_flight_field},
                                       .check = check_lost,
                                       .note = note_on_norms};

}  // namespace plangrad::parallel
