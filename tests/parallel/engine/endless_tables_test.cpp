// The tables of a rank in an endless run: however many bodies it runs, at the same cell of each
// body they have as many entries, so that a run can go on for ever.
// Not here: what the run learns (endless_engine_test).

#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/interpreter.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/endless_cases.h"
#include "tests/parallel/support/small_run.h"

namespace plangrad::parallel {

using Sizes = std::map<std::string, std::size_t>;

/// Counts the entries of a rank's tables.
struct TableSizes {
  /// Tables by the names of values, whose entries follow from the place in the row.
  static Sizes by_name(Interpreter& rank) {
    const Mailbox& mailbox = rank.mailbox_;
    const LossAndNorm& measured = rank.measured_;
    const RunResult& result = rank.run_.result;
    Sizes sizes{{"values here", mailbox.here_.size()},
                {"values on their way", mailbox.arriving_.size()},
                {"sends of weights", entries(mailbox.reading_)},
                {"sums at work", rank.book_.changing_.size()},
                {"sums measured", rank.book_.measured_.size()},
                {"losses to read", measured.unread_.size()},
                {"norms on their way", measured.sums_.size()},
                {"norms", measured.whole_.size()},
                {"results", result.losses.size() + result.squares.size() + result.norms.size() +
                                result.stepped.size() + result.accuracies.size()},
                {"records", result.records.size() + result.order.size()}};
    for (auto& [stage, store] : rank.run_.engine.stores()) {
      add(sizes, text("stage ", stage), store);
      sizes[text("own versions of stage ", stage)] = store.versions().size();
    }
    for (const auto& [stage, buffers] : rank.run_.visiting)
      add(sizes, text("visiting stage ", stage), buffers);
    for (int stage : visited_stages(rank.run_.plan, rank.run_.rank))
      if (stage < rank.run_.plan.stages)
        sizes[text("microbatches on stage ", stage)] = rank.run_.engine.runner(stage).kept_.size();
    return sizes;
  }

  /// Tables whose entries stay until a message is done, which depends on time, or until there are
  /// as many as a channel holds.
  static Sizes by_time(Interpreter& rank) {
    return {{"messages", rank.mailbox_.issued_.size()},
            {"messages to a rank", entries(rank.mailbox_.leaving_)},
            {"reports and grants", rank.progress_.sent_.size()},
            {"own reports", rank.progress_.own_.size()},
            {"expected reports", entries(rank.progress_.reports_)}};
  }

  static const Waiting& waiting(const Interpreter& rank) { return rank.waiting_; }

 private:
  template <class Map>
  static std::size_t entries(const Map& lists) {
    std::size_t count = lists.size();
    for (const auto& [key, list] : lists) count += list.size();
    return count;
  }

  static void add(Sizes& sizes, const std::string& name, const StageBuffers& buffers) {
    sizes["versions of " + name] = buffers.whole_.size();
    sizes["sums of " + name] = buffers.sums_.size();
  }
};

}  // namespace plangrad::parallel

using namespace plangrad::tests;

namespace {

constexpr int bodies = 40;

/// The sizes of a rank's tables, by (cell of the row as it is written, body).
struct Counted {
  std::map<std::pair<int, int>, Sizes> by_name;
  Sizes most_by_time;
};

/// Counts a rank's tables at the end of each computation of a body.
Counted count(const Training& training, const VerifiedPlan& plan, Transport& transport) {
  Counted counted;
  std::optional<Interpreter> rank;
  const Bars& bars = plan.plan().bars[transport.rank()];
  auto look = [&](const Plan&, const Instruction&, auto) {
    const int length = bars.second - bars.first;
    const int behind = TableSizes::waiting(*rank).cell() - bars.first;
    if (behind < 0 || behind >= bodies * length) return false;
    counted.by_name[{behind % length, behind / length}] = TableSizes::by_name(*rank);
    for (const auto& [name, size] : TableSizes::by_time(*rank))
      counted.most_by_time[name] = std::max(counted.most_by_time[name], size);
    return false;
  };
  SmallBatches batches(small_gpt());
  Engine engine(training, transport, cpu_device(), {.timeout = 20, .prolong = look});
  engine.prepare(plan.plan());
  auto go_on = [](const std::vector<RunResult>&) { return true; };
  const Course course{.bodies = bodies, .records = false, .report_every = 1, .heard = go_on};
  rank.emplace(engine, plan, 1, batches, course);
  rank->run();
  return counted;
}

/// The first table of a later body that has not as many entries as in the second one.
std::string grown(const Counted& counted) {
  for (const auto& [place, sizes] : counted.by_name) {
    const auto [cell, body] = place;
    if (body < 2) continue;
    for (const auto& [name, before] : counted.by_name.at({cell, 1})) {
      const auto now = sizes.find(name);
      const std::size_t entries = now == sizes.end() ? 0 : now->second;
      if (entries != before)
        return text(name, ": ", entries, " at cell ", cell, " of body ", body, ", ", before,
                    " in body 1");
    }
  }
  return "";
}

void check(const Counted& counted, const Plan& plan, int rank) {
  INFO("rank " << rank);
  REQUIRE_FALSE(counted.by_name.empty());
  CHECK(grown(counted) == "");
  for (const auto& [name, most] : counted.most_by_time) {
    INFO(name);
    CHECK(most < 3 * plan.rows[rank].size());
  }
}

}  // namespace

TEST_CASE("tables of an endless run are as large in each body", "[endless]") {
  const auto cyclic = [](Setting setting) { return Layout{.stages = 3, .setting = setting}; };
  const std::vector<EndlessCase> cases{
      {"2bw", {.stages = 3, .microbatches = 3}},
      {"2bw",
       {.stages = 2, .width = 2, .microbatches = 1, .recompute = true, .clip = true, .tied = true}},
      {"2bw",
       {.stages = 2,
        .width = 2,
        .microbatches = 1,
        .zero = 1,
        .codec = parse_codec("topk:0.1"),
        .channel = parse_codec("quantize:4")}},
      {"pipedream", {.stages = 3, .width = 2, .tied = true}},
      {"paci", {.stages = 3, .microbatches = 1}},
      {"data", {.stages = 2, .width = 2, .microbatches = 2, .zero = 3}},
      {"cyclic-v1", {.stages = 3, .clip = true, .setting = Setting::data}},
      {"cyclic-v2", cyclic(Setting::data)},
      {"cyclic-v2", cyclic(Setting::model)},
      {"cyclic-v2", cyclic(Setting::zero)}};
  for (const EndlessCase& c : cases) {
    INFO(describe(c));
    const auto found = make_endless(c.schedule, c.layout);
    REQUIRE(found);
    const VerifiedPlan plan = verify(*found);
    Training training(gpt(small_gpt(c.layout.tied)), c.layout.stages);
    training.clip = c.layout.clip ? 0.3 : 0;
    std::mutex mutex;
    std::map<int, Counted> counted;
    run_ranks(found->ranks(), [&](Transport& transport) {
      set_compute_threads(1);
      Counted own = count(training, plan, transport);
      std::lock_guard lock(mutex);
      counted[transport.rank()] = std::move(own);
    });
    for (const auto& [rank, own] : counted) check(own, *found, rank);
  }
}

namespace {

/// The cells in which an instruction runs, found one after the other.
std::vector<int> searched(const RowRun& run, int rank, const Instruction& x) {
  std::vector<int> cells;
  for (int cell = 0; cell < run.cells_of(rank); ++cell)
    if (run.at(rank, cell) == x) cells.push_back(cell);
  return cells;
}

}  // namespace

TEST_CASE("a cell of an endless run is found without a walk through the run", "[endless]") {
  for (const EndlessCase& c : few_endless_cases()) {
    INFO(describe(c));
    const VerifiedPlan plan = verify(*make_endless(c.schedule, c.layout));
    const Training training(gpt(small_gpt(c.layout.tied)), c.layout.stages);
    ThreadsWorld world(plan.plan().ranks());
    Engine engine(training, world.transport(0), cpu_device(), {.timeout = 20});
    const RowRun few(engine, plan, 1, 3);
    int unlike = 0;
    for (int rank = 0; rank < plan.plan().ranks(); ++rank)
      for (int cell = 0; cell < few.cells_of(rank); ++cell) {
        const Instruction x = few.at(rank, cell);
        unlike += few.cells_with(rank, x) != searched(few, rank, x);
        unlike += few.cells_with(0, x) != searched(few, 0, x);  // of another rank, or none
      }
    CHECK(unlike == 0);

    constexpr int many = 100000;
    const RowRun long_run(engine, plan, 1, many);
    const Bars bars = plan.plan().bars[0];
    const int cell = bars.first + many / 2 * (bars.second - bars.first);
    if (bars.second > bars.first)
      CHECK(std::ranges::count(long_run.cells_with(0, long_run.at(0, cell)), cell) == 1);
  }
}
