// Activations and bytes over time, measured on more devices than this machine has: the engine runs
// data parallelism and cyclic data parallelism on ranks that are threads, whose layers sleep
// instead of computing. The clock stands for the devices; what is alive and what is sent is real.
// Not here: learning (tutorials/measure.sh, part fashion). Chapter 08.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "examples/pages/time_steps.h"
#include "nn/checkpoint/file.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/launch.h"
#include "tests/benchmarks/chart.h"

namespace {

using namespace plangrad::examples;
using namespace plangrad::parallel;

constexpr std::int64_t kept_bytes = 1 << 20, weight_bytes = 1 << 18;  // of a stage
constexpr int classes = 4, slow_rank = 1, updates = 8;

struct Seconds {
  double forward = 0, backward = 0;
};

void nap(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Tensor copy_of(const Tensor& x) {
  Tensor y = empty_like(x);
  x.backend().copy(x, y);
  return y;
}

/// Sleeps, and keeps `kept_bytes` from the start of its forward to the end of its backward.
class Nap : public Layer {
 public:
  Nap(ParameterList& list, const std::string& name, Seconds seconds)
      : weight_(list.add(name, {weight_bytes / 4}, Init::constant(0))), seconds_(seconds) {}

  Tensor forward(const Tensor& x, const Pass&) const override {
    Tensor kept = empty({kept_bytes / 4}, DType::f32, x.device());
    nap(seconds_.forward);
    const Tensor& weight = weight_.value;
    return record(copy_of(x), "nap", {x, weight},
                  [kept, shape = weight.shape(),
                   seconds = seconds_.backward](const Tensor& dy) -> std::vector<Tensor> {
                    nap(seconds);
                    return {copy_of(dy), zeros(shape, DType::f32, dy.device())};
                  });
  }

 private:
  Parameter& weight_;
  Seconds seconds_;
};

Training naps(int stages, Seconds seconds) {
  Model model;
  for (int stage = 0; stage < stages; ++stage) {
    const std::string name = fmt::format("nap.{}", stage);
    auto build = [=](ParameterList& list) { return std::make_unique<Nap>(list, name, seconds); };
    model.push_back({name, build, 1, [](const Shape& x) { return x; }});
  }
  Training training(model, stages);
  training.clip = 0;
  training.optimizer = [](const ParameterList& list, const Tensor& w) { return make_sgd(list, w); };
  return training;
}

class Nothing : public Batches {
  Shape shape(int) const override { return {1, classes}; }
  Tensor inputs(int, const DevicePtr& device) override {
    return zeros({1, classes}, DType::f32, device);
  }
  Tensor targets(int, const DevicePtr& device) override {
    return from_host(std::vector<std::int32_t>{0}, {1}, device);
  }
};

// ---- a run ----

struct Case {
  int ranks = 4;
  std::string devices;
  double backward = 1;  ///< of forwards
  double slower = 1;    ///< one rank takes so many times as long
  std::string schedule = {};
};

Plan plan_of(const Case& x) {
  Layout layout{.stages = x.ranks, .steps = updates};
  if (x.schedule == "data") layout.width = x.ranks;
  if (x.backward == 2) layout.gap = 3;
  return make_plan(x.schedule, layout);
}

using Levels = std::vector<std::pair<double, double>>;  // (seconds, bytes from then on)

struct Run {
  Plan plan;
  Timeline timeline;
  Levels activations;  ///< of all ranks together
};

/// The bytes of all ranks together, of what each rank has from some moments on.
Levels total_of(std::vector<MemorySample> samples) {
  std::ranges::stable_sort(samples, {}, &MemorySample::seconds);
  std::map<int, std::int64_t> live;  // by rank
  Levels total;
  std::int64_t now = 0;
  for (const MemorySample& sample : samples) {
    now += sample.bytes - std::exchange(live[sample.rank], sample.bytes);
    total.emplace_back(sample.seconds, now);
  }
  return total;
}

Run run(const Case& x, double forward) {
  const VerifiedPlan plan = verify(plan_of(x));
  Run result{plan.plan(), {x.ranks, {}}, {}};
  std::vector<MemorySample> memory;
  std::mutex mutex;
  run_ranks(x.ranks, [&](Transport& transport) {
    set_compute_threads(1);
    const double factor = transport.rank() == slow_rank ? x.slower : 1;
    Training training = naps(x.ranks, {factor * forward, factor * forward * x.backward});
    Nothing batches;
    Engine engine(training, transport, cpu_device(), {});
    engine.prepare(plan.plan());
    const auto start = std::chrono::steady_clock::now();
    engine.device()->meter().start_timeline();
    const RunResult ran = engine.run(plan, batches);
    const double waited = std::chrono::duration<double>(ran.begun - start).count();
    std::lock_guard lock(mutex);
    for (const Record& record : ran.records) result.timeline.records.push_back(record);
    for (const MemoryMeter::Event& event : engine.device()->meter().stop_timeline())
      if (event.category == Category::activations)
        memory.push_back({transport.rank(), std::max(event.seconds - waited, 0.0), {}, event.live});
  });
  result.activations = total_of(std::move(memory));
  return result;
}

// ---- what it shows ----

/// When an update begins: with the first forward of its first microbatch.
double start_of(int update, const Run& run) {
  for (const Record& record : run.timeline.records)
    if (record.instruction == forward(0, update * run.plan.per_step, record.instruction.version))
      return record.start;
  PG_CHECK(false, "the run has no update ", update);
}

/// Of the steady middle, from the third update's begin to the last one's. Memory in activations of
/// one stage, bytes in gradients of one stage.
struct Figures {
  double update = 0;         ///< seconds
  double peak = 0, low = 0;  ///< at any moment
  double usual = 0;          ///< the level that 95% of the time does not exceed
  double mean = 0;
  double burst = 0;  ///< begun within one time step; its end, a tenth, belongs to the next one
};

/// How many seconds each level was held between two moments.
std::map<double, double> held(const Levels& total, double from, double to) {
  std::map<double, double> result;
  for (std::size_t i = 0; i + 1 < total.size(); ++i) {
    const auto& [begin, bytes] = total[i];
    const double seconds = std::min(total[i + 1].first, to) - std::max(begin, from);
    if (seconds > 0) result[bytes / kept_bytes] += seconds;
  }
  return result;
}

Figures figures(const Run& run) {
  const double from = start_of(2, run), to = start_of(updates - 1, run);
  const std::map<double, double> levels = held(run.activations, from, to);
  Figures result{(to - from) / (updates - 3), levels.rbegin()->first, levels.begin()->first};
  double before = 0;
  for (const auto& [level, seconds] : levels) {
    if (before < 0.95 * (to - from)) result.usual = level;
    before += seconds;
    result.mean += level * seconds / (to - from);
  }
  std::vector<Sending> sent = sendings(run.plan, run.timeline);
  std::erase_if(sent, [&](const Sending& x) { return x.seconds < from || x.seconds > to; });
  result.burst = static_cast<double>(largest_burst(sent, 0.9 * time_step(run.timeline))) /
                 static_cast<double>(weight_bytes);
  return result;
}

void print_heading(double milliseconds) {
  fmt::print(
      "The engine runs on N ranks, which are threads. A stage sleeps {} ms instead of computing,\n"
      "so that two cores can take the place of N devices. The memory meters count the activations\n"
      "of all ranks together, here in units of one stage's activations for one microbatch\n"
      "({} MiB); in brackets is the share of `data`'s. A burst is what all ranks begin to send\n"
      "within a time step, in gradients of one stage ({} KiB). All figures are from the steady\n"
      "middle of {} updates:\n\n"
      "| N | devices | schedule | ms per update | activations, peak | 95% of the time, at most | "
      "mean | lowest | largest burst |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      milliseconds, kept_bytes >> 20, weight_bytes >> 10, updates);
}

void print_row(const Case& x, const Figures& f, const Figures& data) {
  fmt::print(
      "| {} | {} | `{}` | {:.1f} | {:.0f} ({:.3f}) | {:.0f} ({:.4f}) | {:.2f} | {:.0f} | {:.0f} "
      "|\n",
      x.ranks, x.devices, x.schedule, 1e3 * f.update, f.peak, f.peak / data.peak, f.usual,
      f.usual / data.usual, f.mean, f.low, f.burst);
}

/// An area under levels, which are (seconds, bytes from then on), up to `seconds` and `highest`.
std::string area_chart(const std::string& title, const Levels& levels, double seconds,
                       double highest) {
  ChartFrame frame(0, seconds, 0, highest);
  frame.y_axis(bytes_text);
  frame.x_axis(time_unit(seconds).name, time_unit(seconds).per_second);
  std::string path = markup("M{} {}", frame.x(0), frame.y(0));
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const auto& [begin, bytes] = levels[i];
    const double end = i + 1 < levels.size() ? levels[i + 1].first : seconds;
    path += markup("H{}V{}H{}", frame.x(begin), frame.y(bytes), frame.x(end));
    frame.strip(begin, end, fmt::format("{}: {}", seconds_text(begin), bytes_text(bytes)));
  }
  frame.add(markup(R"(<path d="{}V{}Z" fill="{}" fill-opacity=".85"/>)", path, frame.y(0),
                   series_color(0)));
  return frame.svg(title);
}

/// Two runs on one scale.
void draw(const Run& data, const Run& cyclic, const std::filesystem::path& folder) {
  const double seconds = std::max(data.timeline.makespan(), cyclic.timeline.makespan());
  const double slot = time_step(data.timeline);
  double most = 0, peak = 0;
  for (const auto& [at, bytes] : data.activations) peak = std::max(peak, bytes);
  for (std::int64_t each : time_steps(data.plan, data.timeline).bytes)
    most = std::max(most, static_cast<double>(each));
  for (const auto& [name, run] : {std::pair{"data", &data}, std::pair{"cyclic", &cyclic}}) {
    std::map<double, double> flow;  // bytes by the begin of their slot
    for (double at = 0; at < seconds; at += slot) flow[at] = 0;
    for (const Sending& sent : sendings(run->plan, run->timeline))
      std::prev(flow.upper_bound(sent.seconds))->second += static_cast<double>(sent.bytes);
    write_file(
        folder / fmt::format("dance_activations_{}.svg", name),
        area_chart("Activations of all ranks together", run->activations, seconds, 1.05 * peak));
    write_file(folder / fmt::format("dance_flow_{}.svg", name),
               area_chart("Bytes that all ranks begin to send in a time step",
                          {flow.begin(), flow.end()}, seconds, most));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Activations and bytes over time, of data parallelism and its cyclic form");
  std::string out;
  double milliseconds = 40;
  app.add_option("--out", out, "folder for figures")->check(CLI::ExistingDirectory);
  app.add_option("--forward", milliseconds, "ms of a stage's forward")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row appears when it is measured
  print_heading(milliseconds);
  for (int ranks : {4, 8})
    for (Case x : {Case{ranks, "alike"}, Case{ranks, "one 10% slower", 1, 1.1},
                   Case{ranks, "backward = 2 forwards", 2, 1}}) {
      Run data;
      for (const char* schedule : {"data", "cyclic-v1", "cyclic-v2"}) {
        x.schedule = schedule;
        const Run ran = run(x, 1e-3 * milliseconds);
        if (x.schedule == "data") data = ran;
        print_row(x, figures(ran), figures(data));
        if (!out.empty() && ranks == 4 && x.devices == "alike" && x.schedule == "cyclic-v2")
          draw(data, ran, out);
      }
    }
}
