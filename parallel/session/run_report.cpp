// Costs are medians, so that one interruption of a rank does not count.
// Chapter 06.
#include "parallel/session/run_report.h"

#include <cmath>
#include <string_view>

#include "autograd/backend.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/breakdown_table.h"
#include "parallel/drawing/chart.h"
#include "parallel/simulation/own_cores.h"

namespace paragrad::parallel {
using nlohmann::json;

namespace {

/// The value that the given share of values does not exceed; 0 if there are none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Costs measured_costs(const Plan& plan, const Timeline& measured) {
  auto medians = [&](bool (*counts)(const Instruction&), int stages) {
    std::vector<std::vector<double>> seconds(stages);
    for (const Record& record : measured.records)
      if (counts(record.instruction))
        seconds.at(record.instruction.stage).push_back(record.end - record.start);
    std::vector<double> result;
    for (const auto& values : seconds) result.push_back(quantile(values, 0.5));
    return result;
  };
  Costs costs;
  costs.forward = medians(begins_pass, plan.stages);
  costs.backward = medians(goes_back, plan.stages);
  costs.step = medians(makes_version, plan.stage_count());
  costs.activation_bytes.assign(plan.stages, 0);
  costs.activation_gradient_bytes.assign(plan.stages, 0);
  costs.weight_bytes.assign(plan.stage_count(), 0);
  costs.sum_bytes.assign(plan.stage_count(), 0);
  std::vector<double> durations, rates;
  for (const Record& record : measured.records) {
    const Instruction& x = record.instruction;
    const double seconds = record.end - record.start;
    if (record.bytes == 0 || seconds <= 0) continue;
    durations.push_back(seconds);
    rates.push_back(static_cast<double>(record.bytes) / seconds);
    if (x.stage < 0) continue;  // a norm
    auto& bytes = x.what == Value::gradient_sum          ? costs.sum_bytes
                  : x.what == Value::weights             ? costs.weight_bytes
                  : x.what == Value::activation_gradient ? costs.activation_gradient_bytes
                                                         : costs.activation_bytes;
    bytes.at(x.stage) = std::max(bytes.at(x.stage), value_bytes(x, plan, record.bytes));
  }
  costs.latency = quantile(durations, 0);
  if (!rates.empty()) costs.bandwidth = quantile(rates, 0.9);
  return costs;
}

namespace {

/// The training and validation losses over the updates.
Curve loss_curve(const std::vector<json>& metrics) {
  Series training{"training", {}, {}}, validation{"validation", {}, {}};
  for (const json& entry : metrics)
    for (auto [name, series] : {std::pair("loss", &training), {"validation_loss", &validation}}) {
      if (!entry.contains(name)) continue;
      series->x.push_back(entry["step"]);
      series->y.push_back(entry[name]);
    }
  Curve curve{"Loss", "step", "nats", {training}};
  if (!validation.x.empty()) curve.series.push_back(validation);
  return curve;
}

/// The choices of bits that metrics.jsonl tells of.
std::vector<BitChange> bit_history(const std::vector<json>& metrics) {
  std::vector<BitChange> history;
  for (const json& entry : metrics)
    if (entry.contains("bits")) history.push_back({entry["step"], entry["bits"].get<Bits>()});
  return history;
}

/// A timeline of the recorded updates, and where its time goes.
struct Version {
  std::string key, name;
  Timeline timeline;
  Breakdown time;
};

/// What was measured, and what was simulated from it.
using Versions = std::vector<Version>;

Versions versions_of(const RunReport& run, const SessionSettings& settings, bool shared_cores) {
  const VerifiedPlan plan = verify(run.plan);
  const auto& pretended = settings.pretended;
  Costs costs = measured_costs(run.plan, run.recorded);
  if (pretended) costs = pretended->instead_of(costs, run.plan);
  const std::string whose = pretended ? " of pretended devices" : "";
  Versions versions;
  auto add = [&](const char* key, const std::string& name, Timeline timeline) {
    const Breakdown time = breakdown(run.plan, timeline);
    versions.push_back({key, name, std::move(timeline), time});
  };
  add("measured", "measured" + whose, run.recorded);
  add("simulated", text("simulated from the ", pretended ? "pretended and " : "", "measured costs"),
      simulate(plan, costs));
  if (shared_cores && !(pretended && pretended->computes()))
    add("own_cores", "as if each rank had a core of its own",
        on_own_cores(plan, run.recorded, costs));
  return versions;
}

/// The line on shared cores; empty if no ranks share them.
std::string first_line(const RunReport& run, const Versions& versions) {
  if (versions.back().key != "own_cores") return "";
  return about_times(run.shared, run.recorded, versions.back().timeline);
}

json figures(const RunReport& run, const SessionSettings& settings, const RunLog& log,
             const Versions& versions, double matmul_rate) {
  std::map<std::string, std::int64_t> bytes_sent;
  for (const auto& [name, bytes] : run.bytes_sent) bytes_sent[name.second] += bytes;
  double rate = log.units_per_second(), flops = rate * settings.flops_per_unit;
  json result{{"config", settings.config},
              {"steps", run.steps},
              {"complete", run.stopped.empty()},
              {"loss", log.last_loss()},
              {"seconds", log.seconds()},
              {settings.unit + "_per_second", rate},
              {"peak_bytes", run.peaks},
              {"bytes_sent", bytes_sent},
              {"peak_activations", std::llround(memory_total(run.memory, "activations").peak)},
              {"time_step", time_step(run.recorded)},
              {"largest_burst",
               largest_burst(inner_sendings(run.plan, run.recorded), time_step(run.recorded))}};
  for (const Version& version : versions) {
    result["bubble"][version.key] = version.timeline.bubble();
    result["breakdown"][version.key] = to_json(version.time);
  }
  if (run.shared)
    result["shared_cores"] = {{"ranks", run.shared->ranks}, {"cores", run.shared->cores}};
  if (settings.pretended) result["pretended"] = summary_of(*settings.pretended, run.pretended);
  if (!settings.pretended || !settings.pretended->computes())  // else the rate is not this device's
    result["model_flops_utilization"] = flops / matmul_rate;
  if (!run.bits.empty()) result["bits"] = run.bits;
  if (run.pruned) result["pruned"] = *run.pruned;
  if (!run.peaks_pruned.empty()) result["peak_bytes_pruned"] = run.peaks_pruned;
  if (run.validation) result.update(json(*run.validation));
  return result;
}

/// Adds the timelines with their critical paths, and tables of where their time goes.
void add_times(Report& page, const RunReport& run, const Versions& versions) {
  NamedParts all;
  for (const Version& version : versions) {
    const CriticalPath path = critical_path(run.plan, version.timeline);
    page.panels.push_back(
        {text(version.name, ", ", page.memory_of, "; the critical path takes ", describe(path)),
         version.timeline, path.records});
    all.emplace_back(version.name, version.time.all());
  }
  page.tables = {
      breakdown_table("Where the time of all ranks goes, " + page.memory_of, all),
      breakdown_table("Where each rank's time goes, measured", rows_of(versions.front().time))};
}

Report page_of(const RunReport& run, const SessionSettings& settings, const RunLog& log,
               const Versions& versions) {
  Report page{settings.title, {}, {}, {}, run.memory, {}, sendings(run.plan, run.recorded)};
  for (const auto& [name, bytes] : run.bytes_sent)
    page.traffic.push_back({name.first, name.second, bytes});
  auto percent = [](double share) { return text(std::round(1000 * share) / 10, " %"); };
  std::string steps = std::to_string(run.steps);
  if (!run.stopped.empty()) steps = text(run.stopped, " after ", run.steps, " of ", settings.steps);
  page.facts = {{"ranks", std::to_string(run.recorded.ranks)}, {"steps", steps}};
  if (run.validation) page.facts.push_back({"validation loss", text(run.validation->loss)});
  if (run.validation && run.validation->accuracy)
    page.facts.emplace_back("validation accuracy", percent(*run.validation->accuracy));
  if (run.pruned && !run.pruned->is_null())
    page.facts.emplace_back("pruned", percent(run.pruned->at("fraction").get<double>()));
  page.facts.emplace_back(settings.unit + " per second", text(std::round(log.units_per_second())));
  const std::string whose = settings.pretended ? " of pretended devices" : "";
  const std::string bubbles[] = {"bubble measured" + whose, "bubble simulated" + whose,
                                 "bubble on own cores"};
  for (std::size_t i = 0; i < versions.size(); ++i)
    page.facts.emplace_back(bubbles[i], percent(versions[i].timeline.bubble()));
  if (settings.pretended)
    for (auto& fact : facts_of(*settings.pretended, run.pretended)) page.facts.push_back(fact);
  page.memory_of = text("steps ", run.plan.first + 1, " to ", run.plan.first + run.plan.steps);
  page.note = first_line(run, versions);
  add_times(page, run, versions);
  const std::vector<json> metrics = metrics_of(log.path());
  page.curves = {loss_curve(metrics)};
  page.bits = bit_history(metrics);
  return page;
}

}  // namespace

void RunReport::write(const SessionSettings& settings, RunLog& log, const DevicePtr& device) const {
  const bool on_cores = std::string_view(device->backend().name()) == "cpu";
  const Versions versions = versions_of(*this, settings, shared && on_cores);
  if (const std::string late = lateness(pretended); !late.empty()) log.say(late);
  log.summary(figures(*this, settings, log, versions, matmul_rate(device)));
  write_file(settings.out / "trace.json", draw_trace(recorded, memory));
  const std::filesystem::path recorded_plan = settings.out / "recorded.plan";
  std::filesystem::remove(recorded_plan);  // left by an earlier run
  if (driven) write_file(recorded_plan, print(plan));
  write_file(settings.out / "report.html", draw_html(page_of(*this, settings, log, versions)));
  if (const std::string line = first_line(*this, versions); !line.empty()) log.say(line);
  log.say(text("report: ", (settings.out / "report.html").string()));
}

double matmul_rate(const DevicePtr& device) {
  CategoryScope category(*device, Category::workspace);
  double best = 0, spent = 0;
  for (std::int64_t n : {256, 512, 1024}) {
    Tensor a = full({1, n, n}, 0.5, DType::f32, device), c = empty_like(a);
    // A device that spends all its time on small matrices gains nothing from large ones.
    for (int run = 0; run < 8 && spent < 0.3; ++run) {
      auto start = std::chrono::steady_clock::now();
      device->backend().gemm({}, a, a, {}, c);
      to_host(c.window(0, {1}));  // a device may compute while the host continues
      std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      double size = static_cast<double>(n);
      best = std::max(best, 2 * size * size * size / seconds.count());
      spent += seconds.count();
    }
  }
  return best;
}

}  // namespace paragrad::parallel
