// Runs on pretended devices: what is slept by a clock of the test's own, the bits of a run, and
// times that can't be shorter than the simulator's. Not here: flags (tests/examples/). Chapter 06.

#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/pretended.h"
#include "parallel/simulation/simulate.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

using std::chrono::milliseconds;

/// A clock whose computations take `arithmetic`, and which keeps the lengths that are slept to.
struct FakeTimer {
  Timer::Time begun{milliseconds(1000)};
  milliseconds arithmetic{0};
  std::vector<double> lengths;

  Timer timer() {
    return {[this] { return begun + arithmetic; },
            [this](Timer::Time end) {
              lengths.push_back(std::chrono::duration<double>(end - begun).count());
            }};
  }
};

/// Results of a plan, by rank, with such settings; weights as a plain run has them.
std::vector<RunResult> run_with(const Training& training, const VerifiedPlan& plan,
                                const Prolong& prolong, PretendedNetwork* network = nullptr) {
  std::vector<RunResult> results(plan.plan().ranks());
  SmallBatches batches(small_gpt());
  run_ranks(plan.plan().ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    const auto held = network ? network->around(transport) : nullptr;
    Engine engine(training, held ? *held : transport, cpu_device(),
                  {.timeout = 20, .prolong = prolong});
    results[transport.rank()] = engine.run(plan, batches);
  });
  return results;
}

int late_of(const std::vector<RunResult>& results) {
  int late = 0;
  for (const RunResult& result : results) late += result.late;
  return late;
}

Training untied_training(int stages, double clip = 0) {
  Training training(gpt(small_gpt(false)), stages);
  training.clip = clip;
  return training;
}

}  // namespace

TEST_CASE("a computation sleeps until the device's time has passed since it began", "[pretend]") {
  const Plan plan = make_plan("1f1b", {.stages = 2, .microbatches = 2});
  FakeTimer fake;
  const Prolong prolong =
      prolong_to({.forward = {0.02, 0.03}, .backward = {0.04}, .step = {0}}, fake.timer());
  auto is_late = [&](const char* text) {
    return prolong(plan, parse_instruction(text), fake.begun);
  };
  fake.arithmetic = milliseconds(15);
  CHECK_FALSE(is_late("0F0v0"));
  CHECK_FALSE(is_late("1F0v0"));
  CHECK_FALSE(is_late("0B0v0"));
  CHECK_FALSE(is_late("0I0v0"));
  CHECK(fake.lengths == std::vector<double>{0.02, 0.03, 0.04, 0.02});

  fake.arithmetic = milliseconds(25);
  CHECK(is_late("0F0v0"));
  CHECK_FALSE(is_late("1F0v0"));
  CHECK(is_late("0W0v0"));
  CHECK_FALSE(is_late("0Sv1"));  // updates have no pretended time
  CHECK(fake.lengths.size() == 5);

  const Plan evaluation = make_evaluation(plan, 1, 2);
  CHECK_FALSE(prolong(evaluation, parse_instruction("0F0v1"), fake.begun));
  CHECK(fake.lengths.size() == 5);
}

TEST_CASE("an engine prolongs each computation once, and counts those that are late", "[pretend]") {
  const Training training = untied_training(2, 1);
  for (bool recompute : {false, true}) {
    const Layout layout{
        .stages = 2, .microbatches = 3, .steps = 2, .recompute = recompute, .clip = true};
    const VerifiedPlan plan = verify(make_plan("1f1b", layout));
    int computations = 0;
    for (const Row& row : plan.plan().rows)
      for (const Instruction& x : row) computations += is_compute(x) && !drops(x);
    CAPTURE(recompute, computations);

    const Pretended devices{.forward = {1}, .backward = {2}, .step = {0.5}};
    CHECK(devices.computations(plan.plan()) == computations);
    std::atomic<int> sleeps = 0;
    const auto sleep = [&](Timer::Time) { ++sleeps; };
    auto early = prolong_to(devices, {[] { return Timer::Time::min(); }, sleep});
    CHECK(late_of(run_with(training, plan, early)) == 0);
    CHECK(sleeps == computations);
    auto late = prolong_to(devices, {[] { return Timer::Time::max(); }, sleep});
    CHECK(late_of(run_with(training, plan, late)) == computations);
    CHECK(sleeps == computations);
    CHECK(late_of(run_with(training, plan, {})) == 0);
  }
}

TEST_CASE("pretending changes no bit", "[pretend]") {
  SmallBatches batches(small_gpt());
  for (const std::string schedule : {"1f1b", "2bw"}) {
    const Training training = untied_training(3, schedule == "1f1b" ? 1 : 0);
    CAPTURE(schedule);
    const auto plans = plans_of(
        schedule,
        {.stages = 3, .width = 2, .microbatches = 3, .steps = 2, .clip = schedule == "1f1b"});
    const Outcome plain = run_by_engine(training, plans, batches);
    PretendedNetwork network({{{"card", Reach::card, 1e8, 1e-4}, {"inside", Reach::pair, 1e9}}, 3},
                             true);
    auto seat = [&](Transport& inner) { return Seat{cpu_device(), network.around(inner)}; };
    const Outcome held =
        run_by_engine(training, plans, batches, 0, AllReduce::scatter_reduce, {}, {}, seat);
    check_same_bits(held, plain);
    for (std::size_t rank = 0; rank < held.last.size(); ++rank)
      CHECK(held.last[rank].bytes_sent == plain.last[rank].bytes_sent);
  }
}

// A sleep ends late, never early, so a machine of any speed passes.
TEST_CASE("a run on pretended devices takes at least the simulator's time", "[pretend]") {
  const int stages = 3;
  const Training training = untied_training(stages);
  const VerifiedPlan plan = verify(make_plan("1f1b", {.stages = stages, .microbatches = 4}));
  Pretended devices{.forward = {0.002}, .backward = {0.004}, .topology = pair_links(0.003, 1e6)};
  PretendedNetwork network(devices.topology, true);
  const auto results = run_with(training, plan, prolong_to(devices), &network);

  Costs sizes;
  const std::int64_t activation = SmallBatches(small_gpt()).shape(0).numel() * 16 * 4;
  sizes.activation_bytes.assign(stages, activation);
  sizes.weight_bytes.assign(stages, 0);
  const Timeline simulated = simulate(plan, devices.instead_of(sizes, plan.plan()));
  CHECK(simulated.makespan() > 6 * 0.006 + 2 * stages * 0.003);

  // The first forward and the last backward are rank 0's.
  Timeline measured{1, results[0].records};
  CHECK(measured.makespan() >= simulated.makespan());
  for (const RunResult& result : results) {
    std::int64_t sent = 0;
    for (const Record& record : result.records) {
      const double seconds = devices.seconds(plan.plan(), record.instruction);
      CHECK(record.end - record.start >= seconds * (1 - 1e-9));
      if (!sends(record.instruction)) continue;
      sent += record.bytes;
      CHECK(record.bytes == activation);
      CHECK(record.end - record.start >= 0.003);
    }
    CHECK(sent > 0);
  }
}

TEST_CASE("an update ends with its pretended time, in records and in the log", "[pretend]") {
  const VerifiedPlan plan = verify(make_plan("1f1b", {.stages = 2, .microbatches = 2}));
  const auto results = run_with(untied_training(2), plan, prolong_to({.step = {0.01}}));
  for (const RunResult& result : results)
    for (const Record& record : result.records)
      if (makes_version(record.instruction)) {
        CHECK(record.end - record.start >= 0.01 * (1 - 1e-9));
        CHECK(result.stepped.at(1) == record.end);
      }
}
