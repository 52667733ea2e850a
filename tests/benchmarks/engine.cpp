// The price of plans: one rank through the engine against a bare loop; two ranks that are threads
// against one with both cores; how long plans of many ranks take to make, verify and simulate.
// Not here: messages between processes (tests/parallel/mpi), and a step's own operations.
// Chapters 05 and 06.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;

double time_of(const std::function<void()>& run) {
  double start = now();
  run();
  return now() - start;
}

// ---- one rank ----

/// What the engine is held against: forward, backward and step, and nothing else.
class BareLoop {
 public:
  BareLoop(const Training& training, int microbatches, const DevicePtr& device)
      : training_(training),
        microbatches_(microbatches),
        device_(device),
        stage_(training.model, 0, static_cast<int>(training.model.size())) {
    std::int64_t n = stage_.parameters().numel();
    weights_ = empty({n}, training.dtype, device);
    gradients_ = empty({n}, gradient_dtype(training.dtype), device);
    initialize(stage_.parameters(), weights_, training.seed);
    stage_.bind(weights_, add_to_flat(gradients_));
    optimizer_ = training.optimizer(stage_.parameters(), weights_);
  }

  /// Returns the last microbatch's loss.
  double step(Batches& batches) {
    double loss = 0;
    device_->backend().fill(0, gradients_);
    for (int i = 0; i < microbatches_; ++i, ++micro_) {
      Pass pass{true, training_.seed, micro_, false};
      Tensor x = stage_.forward(batches.inputs(micro_, device_), pass);
      Tensor l = cross_entropy(x, batches.targets(micro_, device_));
      loss = item(l);
      backward(l);
    }
    double average = 1.0 / microbatches_, scale = 1;
    if (training_.clip > 0)
      scale = clip_scale(average * gradient_norm(stage_.parameters(), gradients_), training_.clip);
    double rate = training_.learning_rate.at(steps_++);
    optimizer_->step({rate, average, scale, steps_}, weights_, gradients_);
    return loss;
  }
  const Tensor& weights() const { return weights_; }

 private:
  const Training& training_;
  int microbatches_;
  DevicePtr device_;
  Stage stage_;
  Tensor weights_, gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  int micro_ = 0;
  std::int64_t steps_ = 0;
};

struct Overhead {
  double bare, engine;  ///< tokens/s
  double ratio;         ///< median of the runs' ratios
};

/// Runs of both in turn, each of `steps` steps, which are one plan of the engine.
Overhead overhead(const Size& size, int microbatches, double clip, int runs, int steps) {
  Training training(gpt(size.config), 1);
  training.clip = clip;
  SameTokens tokens(size, microbatches);
  BareLoop bare(training, microbatches, cpu_device());
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), cpu_device(), {});
  double bare_loss = 0, loss = 0;
  auto run_bare = [&] {
    for (int i = 0; i < steps; ++i) bare_loss = bare.step(tokens);
  };
  Layout layout{.microbatches = microbatches, .steps = steps, .clip = clip > 0};
  auto run_engine = [&] {
    loss = engine.run(verify(make_plan("data", layout)), tokens).losses.rbegin()->second;
    layout.first += steps;
  };

  std::vector<double> bare_rates, rates, ratios;
  for (int i = 0; i <= runs; ++i) {
    bool bare_first = i % 2;  // each of them begins every other run
    double bare_seconds = bare_first ? time_of(run_bare) : 0, seconds = time_of(run_engine);
    if (!bare_first) bare_seconds = time_of(run_bare);
    PG_CHECK(loss == bare_loss, "the engine's loss is ", loss, ", the bare loop's ", bare_loss);
    if (i == 0) continue;  // warms up
    double count = static_cast<double>(steps * tokens.numel());
    bare_rates.push_back(count / bare_seconds);
    rates.push_back(count / seconds);
    ratios.push_back(bare_seconds / seconds);
  }
  const WeightStore& store = engine.stores().at(0);
  PG_CHECK(to_host(store.weights(store.newest())) == to_host(bare.weights()),
           "the engine's weights are not the bare loop's");
  return {median(bare_rates), median(rates), median(ratios)};
}

void print_overhead(int runs) {
  fmt::print(
      "One rank through the engine against a bare loop of forward, backward and step, in\n"
      "alternating runs that end with the same bits; the ratio is the median of the runs' "
      "ratios:\n\n"
      "| size | microbatches | clip | bare loop, tokens/s | engine, tokens/s | ratio |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (const Size& size : sizes)
    for (int microbatches : {1, 4})
      for (double clip : {0.0, 1.0}) {
        int steps = size.batch * size.config.context > 1000 ? 4 : 40;
        Overhead o = overhead(size, microbatches, clip, runs, steps);
        fmt::print("| {} | {} | {} | {:.0f} | {:.0f} | {:.3f} |\n", size.name, microbatches,
                   clip > 0 ? "yes" : "no", o.bare, o.engine, o.ratio);
      }
}

// ---- two ranks ----

/// Tokens/s of a schedule whose ranks are threads with `cores` cores each.
double rate_of(const Size& size, const std::string& schedule, Layout layout, int cores) {
  Training training(gpt(size.config), layout.stages);
  layout.clip = true;
  layout.tied = training.shared.parameters.size() > 0;
  SameTokens tokens(size, layout.width * layout.microbatches);
  double seconds = 0;
  run_ranks(std::max(layout.stages, layout.width), [&](Transport& transport) {
    set_compute_threads(cores);
    Engine engine(training, transport, cpu_device(), {});
    Layout warm = layout, timed = layout;
    warm.steps = timed.first = 1;
    engine.run(verify(make_plan(schedule, warm)), tokens);
    VerifiedPlan plan = verify(make_plan(schedule, timed));
    double took = time_of([&] { engine.run(plan, tokens); });
    if (transport.rank() == 0) seconds = took;
  });
  return static_cast<double>(layout.steps * tokens.numel()) / seconds;
}

void print_ranks(int runs) {
  fmt::print(
      "Two ranks that are threads, with one core each, against one rank with two cores; a step is\n"
      "8 microbatches in all:\n\n"
      "| size | one rank, tokens/s | `data`, 2 replicas | ratio | `1f1b`, 2 stages | ratio |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (Size size : sizes) {
    if (size.name == "small") size.batch = 8 * 12;
    int steps = size.name == "small" ? 10 : 4;
    std::vector<double> one, data, pipeline;
    for (int i = 0; i < runs; ++i) {
      one.push_back(rate_of(size, "data", {.microbatches = 8, .steps = steps}, 2));
      data.push_back(rate_of(size, "data", {.width = 2, .microbatches = 4, .steps = steps}, 1));
      pipeline.push_back(
          rate_of(size, "1f1b", {.stages = 2, .microbatches = 8, .steps = steps}, 1));
    }
    double base = median(one), d = median(data), p = median(pipeline);
    fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.0f} | {:.2f} |\n", size.name, base, d,
               d / base, p, p / base);
  }
}

// ---- plans ----

void print_plan(const std::string& schedule, const Layout& layout) {
  Plan plan;
  double making = time_of([&] { plan = make_plan(schedule, layout); });
  std::size_t instructions = 0;
  for (const Row& row : plan.rows) instructions += row.size();
  double start = now();
  VerifiedPlan verified = verify(plan);
  double verifying = now() - start;
  Costs costs;
  costs.backward = {2};
  costs.latency = 0.01;
  Timeline timeline;
  double simulating = time_of([&] { timeline = simulate(verified, costs); });
  fmt::print("| `{}` | {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.1f}% |\n", schedule,
             layout.stages, layout.width, plan.ranks(), layout.microbatches, instructions, making,
             verifying, simulating, 100 * timeline.bubble());
}

void print_plans() {
  fmt::print(
      "Plans of many ranks, in seconds:\n\n"
      "| schedule | stages | replicas | ranks | microbatches | instructions | making | verifying | "
      "simulating | bubble |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const char* schedule : {"1f1b", "2bw"})
    print_plan(schedule, {.stages = 64, .microbatches = 512, .clip = true});
  print_plan("1f1b", {.stages = 64, .width = 64, .microbatches = 64, .clip = true});
  print_plan("1f1b", {.stages = 4096, .microbatches = 64});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "What plans cost: the engine's overhead, ranks that are threads, plans of many ranks");
  std::string only;
  int runs = 9;
  app.add_option("--part", only, "overhead, ranks or plans; all if left out")
      ->check(CLI::IsMember({"overhead", "ranks", "plans"}));
  app.add_option("--runs", runs, "runs that are timed, of each kind")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row appears when it is measured
  if (only.empty() || only == "overhead") print_overhead(runs);
  if (only.empty()) fmt::print("\n");
  if (only.empty() || only == "ranks") print_ranks(runs);
  if (only.empty()) fmt::print("\n");
  if (only.empty() || only == "plans") print_plans();
}
