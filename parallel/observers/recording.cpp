// Costs are medians, so that one interruption of a rank does not count. Affinity tells the cores;
// launchers set it for their ranks. Linux tells processor and command. Chapter 06.
#include "parallel/observers/recording.h"

#include <sched.h>

#include <fstream>
#include <iterator>

#include "parallel/drawing/figure.h"
#include "parallel/plan/fields.h"
#include "parallel/simulation/machine.h"
#include "parallel/simulation/variants.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

using nlohmann::json;

namespace {

/// What the ranks of a host have together.
struct Host {
  int ranks = 0;
  std::set<int> cores;
};
std::map<std::string, Host> hosts_of(const std::vector<RankCores>& ranks) {
  std::map<std::string, Host> hosts;
  for (const auto& [name, cores] : ranks) {
    ++hosts[name].ranks;
    hosts[name].cores.insert(cores.begin(), cores.end());
  }
  return hosts;
}

/// The value that the given share of values does not exceed; 0 if there are none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at = values.begin() + static_cast<std::ptrdiff_t>(share * 1.0 * (std::ssize(values) - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Costs costs_of(const RecordedUpdates& recorded, const RecordingContext& context) {
  const Costs costs = measured_costs(recorded.plan, recorded.timeline, context.sums);
  return context.pretended ? context.pretended->instead_of(costs, recorded.plan) : costs;
}

std::vector<TimedVersion> versions_of(const RecordedUpdates& recorded, const VerifiedPlan& plan,
                                      const Costs& costs, const RecordingContext& context) {
  std::vector<TimedVersion> versions;
  auto add = [&](const char* key, Timeline timeline) {
    const Breakdown time = breakdown(recorded.plan, timeline);
    versions.push_back({key, std::move(timeline), time});
  };
  add("measured", recorded.timeline);
  add("simulated", simulate(plan, costs));
  if (context.shared && !(context.pretended && context.pretended->computes()))
    add("own_cores", on_own_cores(plan, recorded.timeline, costs));
  return versions;
}

/// The costs by the names of their fields.
json costs_json(const Costs& costs) {
  json result;
  for (const Field<Costs>* field : cost_fields())
    if (field->is_set(costs)) result[field->name] = json_of(field->kind, field->show(costs));
  return result;
}

/// Seconds of each rank's computations in which their threads had no core.
std::vector<TimeParts> times_without_core(const Timeline& measured) {
  std::vector<TimeParts> result(measured.ranks);
  for (const Record& record : measured.records) {
    if (record.lane != Lane::compute || !is_compute(record.instruction)) continue;
    TimeParts& rank = result.at(record.rank);
    const double seconds = std::max(record.end - record.start - record.cpu, 0.0);
    (makes_version(record.instruction) ? rank.update : rank.compute) += seconds;
    if (begins_pass(record.instruction)) rank.forward += seconds;
  }
  return result;
}

json summary_of(const RecordedUpdates& recorded, Costs costs,
                const std::vector<TimedVersion>& versions) {
  const double step = time_step(recorded.timeline);
  json result{
      {"recorded_updates", {recorded.plan.first + 1, recorded.plan.first + recorded.plan.steps}},
      {"peak_activation_bytes", peak_of_all_ranks(recorded.memory, "activations")},
      {"time_step_seconds", step},
      {"largest_burst_bytes",
       largest_burst(inner_sendings(recorded.plan, recorded.timeline), step)}};
  for (const TimedVersion& version : versions) {
    result["bubble"][version.key] = version.timeline.bubble();
    result["breakdown"][version.key] = to_json(version.time);
    result["update_seconds"][version.key] = version.timeline.makespan() / recorded.plan.steps;
  }
  if (recorded.endless) {
    const Costs own = measured_costs(recorded.plan, versions.back().timeline);
    for (const auto part :
         {&Costs::forward, &Costs::backward, &Costs::input_part, &Costs::weight_part, &Costs::step})
      costs.*part = own.*part;  // CPU times where ranks share cores
    const SteadyState steady = steady_state(*recorded.endless, costs);
    result["bubble"]["steady_state"] = steady.bubble;
    result["update_seconds"]["steady_state"] = steady.seconds;
  }
  return result;
}

}  // namespace

RankCores cores_here() {
  RankCores here{host_name(), {}};
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &usable)) here.cores.push_back(core);
  if (here.cores.empty())  // a machine with more cores than the set can name
    for (int core = 0; core < static_cast<int>(std::thread::hardware_concurrency()); ++core)
      here.cores.push_back(core);
  return here;
}

std::optional<SharedCores> shared_cores(const std::vector<RankCores>& ranks) {
  std::optional<SharedCores> most;
  for (const auto& [name, host] : hosts_of(ranks)) {
    const int cores = static_cast<int>(host.cores.size());
    if (cores == 0 || host.ranks <= cores) continue;  // 0: unknown
    if (!most || host.ranks * most->cores > most->ranks * cores) most = {host.ranks, cores};
  }
  return most;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(": "), line.size() - 2) + 2);
  return "";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::string command;
  for (std::size_t at = 0; at < bytes.size(); at = bytes.find('\0', at) + 1)
    command += (command.empty() ? "" : " ") + shell_word(bytes.c_str() + at);
  return command;
}

json machine_json(const std::vector<RankCores>& ranks) {
  const std::map<std::string, Host> hosts = hosts_of(ranks);
  std::size_t cores = 0;
  for (const auto& [name, host] : hosts) cores += host.cores.size();
  return {{"processor", processor_name()},
          {"host", ranks.empty() ? "" : ranks.front().host},
          {"hosts", hosts.size()},
          {"cores", cores}};
}

std::vector<std::string> about_times(const SharedCores& shared, const json& summary) {
  const int first = summary["recorded_updates"][0], last = summary["recorded_updates"][1];
  const auto percent = [&](const char* key) { return 100 * summary["bubble"][key].get<double>(); };
  const auto update = [&](const char* key) { return seconds_text(summary["update_seconds"][key]); };
  return {fmt::format("ranks idle in {}: {:.1f}% measured ({} an update), {:.1f}% simulated with a "
                      "core for each rank ({})",
                      first < last ? text("updates ", first, " to ", last) : text("update ", first),
                      percent("measured"), update("measured"), percent("own_cores"),
                      update("own_cores")),
          fmt::format("{} ranks on {} can be busy for at most {:.3g}% of the time; for another "
                      "{:.1f}% a rank that computes has no core",
                      shared.ranks, counted(shared.cores, "core"),
                      100.0 * shared.cores / shared.ranks, percent("without_core"))};
}

// ---- recorded updates ----

Costs measured_costs(const Plan& plan, const Timeline& measured, const Summing& sums) {
  auto medians = [&](Op op, Value part, int stages) {
    std::vector<std::vector<double>> seconds(stages);
    for (const Record& record : measured.records)
      if (record.instruction.op == op && record.instruction.what == part)
        seconds.at(record.instruction.stage).push_back(record.end - record.start);
    std::vector<double> result;
    for (const auto& values : seconds) result.push_back(quantile(values, 0.5));
    return result;
  };
  Costs costs;
  costs.sums = sums;
  costs.forward = medians(Op::forward, Value::none, plan.stages);
  costs.backward = medians(Op::backward, Value::none, plan.stages);
  costs.input_part = medians(Op::backward, Value::input_part, plan.stages);
  costs.weight_part = medians(Op::backward, Value::weight_part, plan.stages);
  costs.step = medians(Op::step, Value::none, plan.stage_count());
  costs.activation_bytes.assign(plan.stages, 0);
  costs.activation_gradient_bytes.assign(plan.stages, 0);
  costs.weight_bytes.assign(plan.stage_count(), 0);
  costs.sum_bytes.assign(plan.stage_count(), 0);
  std::map<std::int64_t*, std::int64_t> counts;     // of what is added up in these bytes
  std::vector<std::pair<double, double>> messages;  // seconds, bytes; one of each round
  for (const Record& record : measured.records) {
    const Instruction& x = record.instruction;
    const double seconds = record.end - record.start;
    if (record.bytes == 0 || seconds <= 0) continue;
    const auto [sends, chunks, rounds] = sent_by(x, record.rank, plan, costs);
    messages.push_back({seconds / static_cast<double>(rounds),
                        static_cast<double>(record.bytes) / static_cast<double>(sends)});
    if (x.stage < 0) continue;  // a norm
    auto& bytes = x.what == Value::gradient_sum          ? costs.sum_bytes
                  : x.what == Value::weights             ? costs.weight_bytes
                  : x.what == Value::activation_gradient ? costs.activation_gradient_bytes
                                                         : costs.activation_bytes;
    bytes.at(x.stage) += record.bytes * chunks / sends;
    ++counts[&bytes.at(x.stage)];
  }
  for (const auto& [bytes, count] : counts) *bytes /= count;  // some codecs send more at times
  if (messages.empty()) return costs;
  costs.latency = std::ranges::min(messages).first;
  std::vector<double> rates;  // beyond the latency
  for (const auto& [seconds, bytes] : messages)
    if (seconds > costs.latency) rates.push_back(bytes / (seconds - costs.latency));
  if (!rates.empty()) costs.bandwidth = quantile(rates, 0.9);
  return costs;
}

std::int64_t peak_of_all_ranks(std::vector<MemorySample> samples, const std::string& category) {
  std::ranges::stable_sort(samples, {}, &MemorySample::seconds);
  std::map<int, std::int64_t> live;  // by rank
  std::int64_t now = 0, peak = 0;
  for (const MemorySample& sample : samples)
    if (sample.category == category) {
      now += sample.bytes - std::exchange(live[sample.rank], sample.bytes);
      peak = std::max(peak, now);
    }
  return peak;
}

RecordedFacts facts_of(const RecordedUpdates& recorded, const RecordingContext& context) {
  const VerifiedPlan plan = verify(recorded.plan);
  const Costs costs = costs_of(recorded, context);
  RecordedFacts facts;
  facts.versions = versions_of(recorded, plan, costs, context);
  facts.summary = summary_of(recorded, costs, facts.versions);
  facts.summary["costs"] = costs_json(costs);
  if (facts.versions.back().key != "own_cores") return facts;
  facts.without_core = times_without_core(recorded.timeline);
  double seconds = 0;
  for (const TimeParts& rank : facts.without_core) seconds += rank.compute + rank.update;
  facts.summary["bubble"]["without_core"] =
      seconds / (recorded.timeline.ranks * recorded.timeline.makespan());
  facts.about_times = about_times(*context.shared, facts.summary);
  return facts;
}

}  // namespace plangrad::parallel
