// Costs are medians: a rank that was interrupted once does not count.
// Chapter 06.
#include "parallel/session/run_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "parallel/drawing/chart.h"
#include "parallel/session/matmul_rate.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {
using nlohmann::json;

namespace {

/// The value that a share of all values does not exceed; 0 if there are none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Lines that tell of a step.
std::vector<json> lines_of(const std::filesystem::path& metrics) {
  std::vector<json> lines;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    json entry = json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("step")) lines.push_back(entry);
  }
  return lines;
}

}  // namespace

Costs measured_costs(const Plan& plan, const Timeline& measured) {
  std::vector<std::vector<double>> forward(plan.stages), backward(plan.stages),
      step(plan.stage_count());
  std::vector<double> durations, rates;
  Costs costs;
  costs.activation_bytes.assign(plan.stages, 0);
  costs.activation_gradient_bytes.assign(plan.stages, 0);
  costs.weight_bytes.assign(plan.stage_count(), 0);
  costs.sum_bytes.assign(plan.stage_count(), 0);
  for (const Record& record : measured.records) {
    const Instruction& x = record.instruction;
    double seconds = record.end - record.start;
    if (begins_pass(x)) forward.at(x.stage).push_back(seconds);
    if (goes_back(x)) backward.at(x.stage).push_back(seconds);
    if (makes_version(x)) step.at(x.stage).push_back(seconds);
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
  auto medians = [](const std::vector<std::vector<double>>& stages) {
    std::vector<double> result;
    for (const auto& values : stages) result.push_back(quantile(values, 0.5));
    return result;
  };
  costs.forward = medians(forward);
  costs.backward = medians(backward);
  costs.step = medians(step);
  costs.latency = quantile(durations, 0);
  if (!rates.empty()) costs.bandwidth = quantile(rates, 0.9);
  return costs;
}

Curve loss_curve(const std::filesystem::path& metrics) {
  Series training{"training", {}, {}}, validation{"validation", {}, {}};
  for (const json& entry : lines_of(metrics))
    for (auto [name, series] : {std::pair("loss", &training), {"validation_loss", &validation}}) {
      if (!entry.contains(name)) continue;
      series->x.push_back(entry["step"]);
      series->y.push_back(entry[name]);
    }
  Curve curve{"Loss", "step", "nats", {training}};
  if (!validation.x.empty()) curve.series.push_back(validation);
  return curve;
}

std::vector<BitChange> bit_history(const std::filesystem::path& metrics) {
  std::vector<BitChange> history;
  for (const json& entry : lines_of(metrics))
    if (entry.contains("bits"))
      history.push_back({entry["step"], entry["bits"].get<std::map<std::string, int>>()});
  return history;
}

namespace {

double units_per_second(const RunLog& log) {
  return static_cast<double>(log.units()) / std::max(log.seconds(), 1e-9);
}

json figures(const RunReport& run, const SessionSettings& settings, const RunLog& log,
             const Timeline& simulated, double matmul_rate) {
  std::map<std::string, std::int64_t> bytes_sent;
  for (const auto& [name, bytes] : run.bytes_sent) bytes_sent[name.second] += bytes;
  double rate = units_per_second(log), flops = rate * settings.flops_per_unit;
  json result{{"config", settings.config},
              {"steps", run.steps},
              {"complete", run.stopped.empty()},
              {"loss", log.last_loss()},
              {"seconds", log.seconds()},
              {settings.unit + "_per_second", rate},
              {"model_flops_utilization", flops / matmul_rate},
              {"peak_bytes", run.peaks},
              {"bytes_sent", bytes_sent},
              {"peak_activations", std::llround(memory_total(run.memory, "activations").peak)},
              {"time_step", time_step(run.recorded)},
              {"largest_burst",
               largest_burst(inner_sendings(run.plan, run.recorded), time_step(run.recorded))},
              {"bubble", {{"measured", run.recorded.bubble()}, {"simulated", simulated.bubble()}}}};
  if (!run.bits.empty()) result["bits"] = run.bits;
  if (run.pruned) result["pruned"] = *run.pruned;
  if (!run.peaks_pruned.empty()) result["peak_bytes_pruned"] = run.peaks_pruned;
  if (run.validation) result["validation_loss"] = run.validation->loss;
  if (run.validation && run.validation->accuracy)
    result["validation_accuracy"] = *run.validation->accuracy;
  return result;
}

Report page_of(const RunReport& run, const SessionSettings& settings, const RunLog& log,
               const Timeline& simulated) {
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
  page.facts.insert(page.facts.end(),
                    {{settings.unit + " per second", text(std::round(units_per_second(log)))},
                     {"bubble measured", percent(run.recorded.bubble())},
                     {"bubble simulated", percent(simulated.bubble())}});
  std::string shown = text("steps ", run.plan.first + 1, " to ", run.plan.first + run.plan.steps);
  page.memory_of = shown;
  page.panels = {{"measured, " + shown, run.recorded},
                 {"simulated from the measured costs, " + shown, simulated}};
  page.curves = {loss_curve(log.path())};
  page.bits = bit_history(log.path());
  return page;
}

}  // namespace

void RunReport::write(const SessionSettings& settings, RunLog& log, const DevicePtr& device) const {
  const Timeline simulated = simulate(verify(plan), measured_costs(plan, recorded));
  log.summary(figures(*this, settings, log, simulated, matmul_rate(device)));
  write_file(settings.out / "trace.json", draw_trace(recorded, memory));
  const std::filesystem::path recorded_plan = settings.out / "recorded.plan";
  std::filesystem::remove(recorded_plan);  // of an earlier run
  if (driven) write_file(recorded_plan, print(plan));
  write_file(settings.out / "report.html", draw_html(page_of(*this, settings, log, simulated)));
  log.say(text("report: ", (settings.out / "report.html").string()));
}

}  // namespace paragrad::parallel
