// One rank of the checks of the MPI transport. CTest starts several of them by mpirun.
//   checks suite:       the suite of transports and collectives
//   checks kill:        rank 1 kills itself; the others wait for it, and must end with a report
//   checks join:        this rank waits for others, which never join, for 2 s
//   checks throw:       rank 1 throws instead
//   checks late:        rank 1 sends nothing for long
//   checks engine:      every schedule gives the bits of the serial interpreter, ZeRO, too
//   checks cyclic:      cyclic ones give those of their rule, in settings that have so many ranks
//   checks codecs:      so do runs whose messages are encoded, by every form of reduction
//   checks combinations: so does every combination of choices that has so many ranks
//   checks lost_engine: rank 0 kills itself in the middle of a plan
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_transport.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/combinations.h"
#include "tests/parallel/support/cyclic_cases.h"
#include "tests/parallel/support/grid.h"
#include "tests/parallel/support/transport_suite.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

using Weights = std::vector<std::vector<double>>;  // by stage

/// Rank 0 saves for longer than anybody waits, who learns by notes that it lives.
void wait_for_a_save(Transport& transport) {
  if (transport.rank() == 0) {
    AtWork saving(transport, Work::saving);
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  all_gather_bytes(transport, "", 2);
}

void suite(Transport& transport) {
  transport_checks_on_host(transport);
  collective_checks_on_host(transport);
  wait_for_a_save(transport);
  if (transport.rank() == 0)
    std::cout << text("all checks passed on ", transport.size(), " ranks\n");
}

/// Rank 1 ends as `how` says when all have met; the others wait for a message of it.
void lose_rank_1(Transport& transport, const std::string& how) {
  transport.publish({.cell = 5, .plan = 0});
  std::cout << text("process ", getpid(), '\n') << std::flush;
  all_gather_bytes(transport, "", 60);
  if (transport.rank() == 1) {
    if (how == "kill") raise(SIGKILL);
    if (how == "throw") throw Error("out of paper");
    std::this_thread::sleep_for(std::chrono::seconds(30));  // longer than anybody waits
  }
  int byte = 0;
  auto request = transport.receive({1, 0, &byte, 1});
  wait_for(transport, *request, how == "late" ? 3 : 60, "a message of rank 1", 1);
}

/// Runs plans that follow each other, and compares this rank's weights with those expected.
void compare(Transport& transport, const std::string& what, const Training& training,
             const std::vector<VerifiedPlan>& plans,
             const std::function<std::vector<double>(int stage)>& expected,
             const GptConfig& config = small_gpt(), AllReduce reduction = {}) {
  SmallBatches batches(config);
  Engine engine(training, transport, cpu_device(), {reduction, 60, hosts_of(transport.size())});
  for (const VerifiedPlan& plan : plans) engine.run(plan, batches);
  for (auto& [stage, store] : engine.stores())
    PG_CHECK(to_host(store.weights(store.newest())) == expected(stage), what, ": stage ", stage,
             " has other weights than expected");
}

/// All ranks are replicas. Returns the number of runs.
int zero_runs(Transport& transport) {
  if (transport.size() == 1) return 0;
  for (int zero : {1, 2}) {
    const Case c{"data", transport.size(), 2, 2, false, /*clip*/ true, /*tied*/ true, false};
    Layout layout = layout_of(c, 2);
    layout.zero = zero;
    const auto plans = plans_of(c.schedule, layout, 2);
    SmallBatches batches(small_gpt());
    const Outcome serial = run_serially(training_of(c), plans, batches);
    compare(transport, text("zero ", zero), training_of(c), plans, [&](int stage) {
      return serial.weights.at({transport.rank(), stage});
    });
  }
  return 2;
}

void engine(Transport& transport) {
  set_compute_threads(1);
  std::vector<Case> cases = grid({1, 2, 4});
  std::erase_if(cases, [&](const Case& c) {
    return make_plan(c.schedule, layout_of(c, 2)).ranks() != transport.size();
  });
  PG_CHECK(!cases.empty(), "no schedule has ", transport.size(), " ranks; use 1, 2, 4 or 8");
  cases = fewer(cases);
  for (const Case& c : cases) {
    const Training training = training_of(c);
    const auto plans = plans_of(c.schedule, layout_of(c, 2), 2);
    SmallBatches batches(small_gpt());
    const Outcome serial = run_serially(training, plans, batches);
    compare(transport, text(c), training, plans, [&](int stage) {
      return serial.weights.at({transport.rank(), stage});
    });
  }
  const int runs = static_cast<int>(cases.size()) + zero_runs(transport);
  if (transport.rank() == 0) std::cout << text(runs, " runs as the serial ones\n");
}

void codecs(Transport& transport) {
  set_compute_threads(1);
  const std::vector<CodedRun> runs{
      {"data", "quantize:4", "none", "scatter"},
      {"data", "topk:0.1", "none", "ring"},
      {"data", "lowrank:2", "none", "tree"},
      {"data", "quantize:3:64:stochastic", "none", "hierarchical"},
      {"data", "adaptive:64:2", "none", "scatter"},
      {.schedule = "data", .codec = "quantize:4", .reduction = "ring", .zero = 2},
      {.schedule = "cyclic-v1", .codec = "topk:0.1", .stages = 4},
      {.schedule = "cyclic-v2", .codec = "quantize:4", .setting = Setting::zero, .stages = 4},
      {.schedule = "1f1b", .codec = "bf16", .channel = "topk:0.2", .tied = true},
      {.schedule = "2bw", .codec = "threshold:0.1:3", .channel = "quantize:4", .clip = true}};
  for (const CodedRun& run : runs) {
    const Outcome serial = serially(run, 2, 2);
    compare(
        transport, text(run), training_of(run), plans_of(run.schedule, layout_of(run, 2), 2),
        [&](int stage) {
          return serial.weights.at({transport.rank(), stage});
        },
        coded_gpt(run.tied), reductions().at(run.reduction));
  }
  if (transport.rank() == 0) std::cout << text(runs.size(), " encoded runs as the serial ones\n");
}

/// Rank 0's alone: so many processes on a few cores should not all compute the same.
Weights told_by_rank_0(Transport& transport, const std::function<Weights()>& compute) {
  const std::string own = transport.rank() == 0 ? nlohmann::json(compute()).dump() : "";
  return nlohmann::json::parse(all_gather_bytes(transport, own, 60)[0]);
}

using Hashes = std::map<std::pair<int, int>, std::size_t>;  // of weights, by (rank, stage)

std::size_t hash_of(const std::vector<double>& weights) {
  return std::hash<std::string>()(
      {reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(double)});
}

/// The hashes of each run's weights as the serial interpreter has them. Each rank computes those of
/// some runs, and tells the others.
std::vector<Hashes> serial_hashes(Transport& transport, const std::vector<Combination>& runs) {
  std::vector<Hashes> own(runs.size());
  for (std::size_t i = transport.rank(); i < runs.size(); i += transport.size())
    for (const auto& [place, weights] : CombinedRun(runs[i]).serially().weights)
      own[i][place] = hash_of(weights);
  std::vector<Hashes> all(runs.size());
  for (const std::string& told : all_gather_bytes(transport, nlohmann::json(own).dump(), 120)) {
    const auto parts = nlohmann::json::parse(told).get<std::vector<Hashes>>();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].insert(parts[i].begin(), parts[i].end());
  }
  return all;
}

void combinations(Transport& transport) {
  set_compute_threads(1);
  std::vector<Combination> runs = combinations_of_today();
  for (const Combination& each : endless_combinations()) runs.push_back(each);
  runs = fewer(runs);
  std::erase_if(runs, [&](const auto& x) { return CombinedRun(x).ranks() != transport.size(); });
  PG_CHECK(!runs.empty(), "no combination has ", transport.size(), " ranks; use 2, 3 or 4");
  const std::vector<Hashes> hashes = serial_hashes(transport, runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CombinedRun run(runs[i]);
    Engine engine(run.training(), transport, cpu_device(), {.timeout = 60});
    run.by_engine(engine);
    for (auto& [stage, store] : engine.stores())
      PG_CHECK(hash_of(to_host(store.versions().at(store.newest()))) ==
                   hashes[i].at({transport.rank(), stage}),
               text(runs[i]), ": stage ", stage, " has other weights than the serial run");
  }
  if (transport.rank() == 0) std::cout << text(runs.size(), " combinations as the serial ones\n");
}

/// One rule, with each optimizer, if the setting has so many ranks. Returns the number of runs.
int cyclic_runs(Transport& transport, const std::string& rule, double clip, Setting setting,
                int n) {
  const auto plans = cyclic_plans(rule, setting, n, clip > 0);
  if (plans[0].plan().ranks() != transport.size()) return 0;
  for (bool adamw : {false, true}) {
    const Training training = cyclic_training(n, adamw, false, clip);
    const auto weights = told_by_rank_0(transport, [&] {
      SmallBatches batches(small_gpt());
      return ruled(training, rule, batches);
    });
    compare(transport, text(rule, clip > 0 ? ", clipped" : "", adamw ? ", adamw" : ", sgd"),
            training, plans, [&](int stage) { return weights.at(stage); });
  }
  return 2;
}

void cyclic(Transport& transport) {
  set_compute_threads(1);
  int runs = 0;
  for (int n : {2, 3, 4, 8})
    for (const auto& [name, setting] : settings()) {
      runs += cyclic_runs(transport, "v1", 0, setting, n);
      runs += cyclic_runs(transport, "v1", 0.3, setting, n);
      runs += cyclic_runs(transport, "v2", 0, setting, n);
    }
  PG_CHECK(runs > 0, "no setting has ", transport.size(), " ranks; use 1, 2, 3, 4, 6, 8, 10 or 36");
  if (transport.rank() == 0) std::cout << text(runs, " runs as their rule\n");
}

/// Rank 0 dies while the others wait for its seventh microbatch.
void lose_engine(Transport& transport) {
  class DeadlyBatches : public SmallBatches {
   public:
    DeadlyBatches() : SmallBatches(small_gpt()) {}
    Tensor inputs(int micro, const DevicePtr& device) override {
      if (micro < 7) return SmallBatches::inputs(micro, device);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      raise(SIGKILL);
      return {};
    }
  } batches;
  std::cout << text("process ", getpid(), '\n') << std::flush;
  Layout layout{.stages = transport.size(), .microbatches = 10, .steps = 2};
  Training training = small_training(layout.stages);
  Engine(training, transport, cpu_device(), {AllReduce::scatter_reduce, 60})
      .run(verify(make_plan("1f1b", layout)), batches);
}

}  // namespace

int main(int count, char** arguments) try {
  std::string what = count >= 2 ? arguments[1] : "";
  MpiWorld::stop_on_sigterm();
  MpiWorld world(what == "join" ? 2 : 300);
  world.run([&](Transport& transport) {
    if (what == "suite") return suite(transport);
    if (what == "engine") return engine(transport);
    if (what == "cyclic") return cyclic(transport);
    if (what == "combinations") return combinations(transport);
    if (what == "codecs") return codecs(transport);
    if (what == "lost_engine") return lose_engine(transport);
    lose_rank_1(transport, what);
  });
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
