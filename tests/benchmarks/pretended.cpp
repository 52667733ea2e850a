// Runs on pretended devices against the simulator: a plan of every schedule, and sums over replicas
// by every reduction, measured and simulated; and what the engine itself takes for a cell, where
// ranks are many more than cores.
// Not here: what pretending is (parallel/engine/pretended.h). Chapter 06.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/pretended.h"
#include "parallel/observers/run_record.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "parallel/transports/launch.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;

/// A GPT whose arithmetic is as little as can be, with a block for each stage.
Size tiny_size(int blocks, int batch, int width = 8) {
  return {"tiny", {blocks, 1, width, 4, 16, 0, false}, batch};
}

/// Seconds that all threads of this process have computed.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measured {
  Timeline timeline;
  int late = 0;
  double cpu = 0;  ///< seconds
};

/// The part of a run that a plan does not say.
struct Settings {
  AllReduce reduction = AllReduce::scatter_reduce;  // as engines do
  int width = 8;                                    // of the GPT
  double clip = 0;
};

std::vector<int> hosts_of(const Pretended& devices, int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(devices.topology.host(rank));
  return hosts;
}

Measured run_once(const VerifiedPlan& plan, const Pretended& devices,
                  const Settings& settings = {}) {
  const Plan& rows = plan.plan();
  Training training(gpt(tiny_size(rows.stages, 1, settings.width).config), rows.stages);
  training.clip = settings.clip;
  SameTokens tokens(tiny_size(rows.stages, rows.per_step, settings.width), rows.per_step);
  std::shared_ptr<PretendedNetwork> network;
  if (devices.links()) network = std::make_shared<PretendedNetwork>(devices.topology, true);
  std::vector<RunResult> results(rows.ranks());
  const double before = cpu_seconds();
  run_ranks(rows.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    const auto held = network ? network->around(transport) : nullptr;
    Engine engine(training, held ? *held : transport, cpu_device(),
                  {.reduction = settings.reduction,
                   .hosts = hosts_of(devices, rows.ranks()),
                   .prolong = devices.computes() ? prolong_to(devices) : nullptr});
    results[transport.rank()] = engine.run(plan, tokens);
  });
  Measured measured{{rows.ranks(), {}}, 0, cpu_seconds() - before};
  for (const RunResult& result : results) {
    measured.late += result.late;
    measured.timeline.records.insert(measured.timeline.records.end(), result.records.begin(),
                                     result.records.end());
  }
  return measured;
}

/// The simulator's time for what was measured, on ideal links if none are pretended.
double simulated_time(const VerifiedPlan& plan, const Pretended& devices, const Measured& measured,
                      const Settings& settings = {}) {
  const Plan& rows = plan.plan();
  const Summing sums{settings.reduction, hosts_of(devices, rows.ranks())};
  Costs costs = devices.instead_of(measured_costs(rows, measured.timeline, sums), rows);
  if (!devices.links()) {
    costs.latency = 0;
    costs.bandwidth = std::numeric_limits<double>::infinity();
  }
  return simulate(plan, costs).makespan();
}

struct Case {
  std::string name, schedule;
  Layout layout;
};

/// A plan of every schedule, and of cyclic ones in every setting, with `depth` stages and as many
/// microbatches; one stage on as many ranks where a schedule has no more.
std::vector<Case> cases(int depth, int steps) {
  std::vector<Case> result;
  for (const Schedule* schedule : schedules()) {
    const std::string name = schedule->name;
    Layout layout{.stages = depth, .microbatches = depth, .steps = steps};
    if (schedule->updates_per_microbatch) {
      layout.microbatches = 1;
      layout.steps = steps * depth;
    }
    if (name == "data") layout = {.width = depth, .microbatches = 2, .steps = steps};
    if (!schedule->cyclic) {
      result.push_back({name, name, layout});
      continue;
    }
    for (const auto& [setting, value] : settings()) {
      layout.setting = value;
      layout.gap = 3;  // a backward takes as long as two forwards
      result.push_back({text(name, " (", setting, ")"), name, layout});
    }
  }
  return result;
}

/// A table of plans, each measured several times and simulated.
class Comparison {
 public:
  explicit Comparison(int runs) : runs_(runs) {
    fmt::print(
        "| plan | ranks | simulated | measured, median of {} | error, median | error, worst | "
        "late computations |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        runs);
  }
  void row(const std::string& name, const VerifiedPlan& plan, const Pretended& devices,
           const Settings& settings = {}) {
    std::vector<double> times, errors, sizes;
    double simulated = 0;
    int late = 0;
    for (int i = 0; i < runs_; ++i) {
      const Measured measured = run_once(plan, devices, settings);
      simulated = simulated_time(plan, devices, measured, settings);
      times.push_back(measured.timeline.makespan());
      errors.push_back(times.back() / simulated - 1);
      sizes.push_back(std::abs(errors.back()));
      late += measured.late;
    }
    all_.insert(all_.end(), sizes.begin(), sizes.end());
    const auto worst = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
    fmt::print("| {} | {} | {:.3f} | {:.3f} | {:+.2f} % | {:+.2f} % | {} of {} |\n", name,
               plan.plan().ranks(), simulated, median(times), 100 * median(errors),
               100 * errors[worst], late, runs_ * devices.computations(plan.plan()));
  }
  void end() const {
    fmt::print("\nSize of the error over all runs: median {:.2f} %, worst {:.2f} %.\n",
               100 * median(all_), 100 * *std::max_element(all_.begin(), all_.end()));
  }

 private:
  const int runs_;
  std::vector<double> all_;
};

void print_schedules(int depth, int steps, int runs, const Pretended& devices) {
  const std::vector<Link>& links = devices.topology.links;
  fmt::print(
      "Seconds of a plan with {} stages or ranks, forward {} s, backward {} s, update {} s{}:\n\n",
      depth, devices.forward[0], devices.backward[0], devices.step[0],
      links.empty()
          ? ""
          : fmt::format(", links of {} s and {} bytes/s", links[0].latency, links[0].bandwidth));
  Comparison comparison(runs);
  for (const Case& c : cases(depth, steps))
    comparison.row(c.name, verify(make_plan(c.schedule, c.layout)), devices);
  comparison.end();
}

/// Sums over replicas by every reduction, on links of their own and on cards that ranks share, with
/// ZeRO, codecs and norms.
void print_sums(int steps, int runs, const Pretended& devices) {
  const double latency = 0.001, bandwidth = 1e6;
  fmt::print(
      "Seconds of plans with replicas, forward {} s, backward {} s, update {} s. Each pair of "
      "ranks "
      "has a link of {} s and {} bytes/s; or the ranks of a host share a card of this speed, and "
      "have links of a tenth of that latency and ten times that bandwidth among them:\n\n",
      devices.forward[0], devices.backward[0], devices.step[0], latency, bandwidth);
  Comparison comparison(runs);
  Pretended links = devices;
  links.topology = pair_links(latency, bandwidth);
  auto with_cards = [&](int ranks) {
    Pretended cards = devices;
    cards.topology = {{{"card", Reach::card, bandwidth, latency},
                       {"inside", Reach::pair, 10 * bandwidth, latency / 10}},
                      ranks};
    return cards;
  };
  auto row = [&](const std::string& name, const std::string& schedule, Layout layout,
                 const Pretended& on, Settings settings = {}) {
    settings.width = 32;  // sums that take as long as a backward
    layout.steps = steps;
    layout.clip = settings.clip > 0;
    comparison.row(name, verify(make_plan(schedule, layout)), on, settings);
  };
  using enum AllReduce;
  for (int ranks : {2, 4, 8}) row("data", "data", {.width = ranks}, links);
  row("data, norm", "data", {.width = 8}, links, {.clip = 1});
  row("data, four buckets", "data", {.stages = 4, .width = 4}, links);
  for (const auto& [name, how] : reductions())
    if (how != scatter_reduce && !entry_of(how).by_hosts)
      row("data, " + name, "data", {.width = 8}, links, {how});
  for (int zero : {1, 2, 3})
    for (AllReduce how : {scatter_reduce, ring})
      row(text("data, ZeRO ", zero, ", ", name_of(how)), "data", {.width = 4, .zero = zero}, links,
          {how});
  for (const auto& [name, how] : reductions()) {
    row("data, hosts of 1, " + name, "data", {.width = 8}, with_cards(1), {how});
    row("data, hosts of 4, " + name, "data", {.width = 8}, with_cards(4), {how});
  }
  row("data, hosts of 2, ZeRO 3", "data", {.width = 8, .zero = 3}, with_cards(2));
  for (const char* codec : {"quantize:4", "topk:0.1", "lowrank:2", "pca:2"})
    row(text("data, ", codec), "data", {.width = 4, .codec = parse_codec(codec)}, links);
  for (const char* schedule : {"1f1b", "2bw", "zb-h1", "message-driven"}) {
    const Layout layout{.stages = 4, .width = 2, .microbatches = 4};
    row(schedule, schedule, layout, links);
    row(text(schedule, ", hosts of 4"), schedule, layout, with_cards(4));
  }
  row("1f1b, tree", "1f1b", {.stages = 2, .width = 4, .microbatches = 4}, links,
      {reductions().at("tree")});
  row("1f1b, norm", "1f1b", {.stages = 2, .width = 4, .microbatches = 4}, links, {.clip = 1});
  row("1f1b, quantize:4, activations too", "1f1b",
      {.stages = 2,
       .width = 4,
       .microbatches = 4,
       .codec = parse_codec("quantize:4"),
       .channel = parse_codec("quantize:8")},
      links);
  row("interleaved, hosts of 2", "interleaved", {.stages = 4, .width = 4, .microbatches = 4},
      with_cards(2));
  comparison.end();
}

/// The arithmetic of one rank that does the same work is taken away from the CPU's time.
void print_cells(int ranks, int runs, const Pretended& devices) {
  const int micros = ranks, steps = 2;
  const VerifiedPlan plan =
      verify(make_plan("1f1b", {.stages = ranks, .microbatches = micros, .steps = steps}));
  const VerifiedPlan alone = verify(make_plan(
      "cyclic-v1",
      {.stages = ranks, .microbatches = micros, .steps = steps, .setting = Setting::one_device}));
  std::size_t cells = 0, row = 0;
  for (const Row& each : plan.plan().rows) {
    cells += each.size();
    row = std::max(row, each.size());
  }
  std::vector<double> engine, arithmetic, beyond;
  for (int i = 0; i < runs; ++i) {
    const Measured measured = run_once(plan, devices);
    engine.push_back(measured.cpu);
    arithmetic.push_back(run_once(alone, {}).cpu);
    beyond.push_back(measured.timeline.makespan() - simulated_time(plan, devices, measured));
  }
  const auto count = static_cast<double>(cells);
  fmt::print(
      "`1f1b` on {} ranks, {} cells in all, medians of {} runs:\n\n"
      "| CPU time per cell | of it, arithmetic | time beyond the simulated one, per cell of a row "
      "|\n"
      "| --- | --- | --- |\n| {:.1f} us | {:.1f} us | {:.1f} us |\n",
      ranks, cells, runs, 1e6 * median(engine) / count, 1e6 * median(arithmetic) / count,
      1e6 * median(beyond) / static_cast<double>(row));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs on pretended devices against the simulator, and the engine's time per cell");
  std::string only;
  int runs = 5, depth = 8, ranks = 16, steps = 2;
  Pretended devices{.forward = {0.02}, .backward = {0.04}, .step = {0.002}};
  Pretended linked = devices;
  linked.topology = pair_links(0.001, 1e6);
  app.add_option("--part", only, "schedules, links, sums or cells; all if left out")
      ->check(CLI::IsMember({"schedules", "links", "sums", "cells"}));
  app.add_option("--runs", runs, "runs of each plan")->check(CLI::PositiveNumber);
  app.add_option("--depth", depth, "stages of a plan")->check(CLI::PositiveNumber);
  app.add_option("--ranks", ranks, "ranks of the part cells")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "updates of a plan")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row appears when it is measured
  if (only.empty() || only == "schedules") print_schedules(depth, steps, runs, devices);
  if (only.empty()) fmt::print("\n");
  if (only.empty() || only == "links") print_schedules(depth, steps, runs, linked);
  if (only.empty()) fmt::print("\n");
  if (only.empty() || only == "sums") print_sums(steps, runs, devices);
  if (only.empty()) fmt::print("\n");
  if (only.empty() || only == "cells") print_cells(ranks, runs, devices);
}
