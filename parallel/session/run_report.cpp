// What was recorded is worked out once; the rest of a page is written anew each time, from numbers
// that are here anyway, so that a run can be watched without being slowed down.
// Chapter 06.
#include "parallel/session/run_report.h"

#include <cmath>
#include <ctime>
#include <string_view>

#include "autograd/backend.h"
#include "autograd/version.h"
#include "nn/checkpoint/file.h"

namespace plangrad::parallel {
using nlohmann::json;

namespace {

/// The time now, as "2026-11-23 14:37:05 UTC".
std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char words[64];
  std::strftime(words, sizeof words, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return words;
}

json events_json(const std::vector<RunEvent>& events) {
  constexpr std::size_t most = 300;  // the last ones
  json result = json::array();
  for (std::size_t i = events.size() - std::min(events.size(), most); i < events.size(); ++i)
    result.push_back(
        {{"step", events[i].step}, {"what", events[i].what}, {"text", events[i].text}});
  return result;
}

/// What the plan player is asked: recorded updates, simulated with the costs that were measured.
json player_request_of(const RecordedUpdates& recorded, const std::string& run) {
  const Costs costs = measured_costs(recorded.plan, recorded.timeline);
  return {{"plan", print(recorded.plan)},
          {"title",
           text(run, ", updates ", recorded.plan.first + 1, " to ",
                recorded.plan.first + recorded.plan.steps, ", simulated with its measured costs")},
          {"costs",
           {{"forward", costs.forward},
            {"backward", costs.backward},
            {"input_part", costs.input_part},
            {"weight_part", costs.weight_part},
            {"step", costs.step},
            {"latency", costs.latency}}}};
}

/// The events that an earlier session's summary tells of, up to an update.
std::vector<RunEvent> earlier_events(const std::filesystem::path& folder) {
  std::vector<RunEvent> events;
  try {
    const json summary = json_in(folder / "summary.json");
    for (const json& event : summary.at("events"))
      events.push_back({static_cast<int>(nn::whole_number(event.at("step"))), event.at("what"),
                        event.at("text")});
  } catch (const std::exception&) {
    // A damaged summary only tells less.
  }
  return events;
}

}  // namespace

const char* name_of(RunState state) {
  static constexpr const char* names[] = {"running", "stopped", "interrupted", "finished"};
  return names[static_cast<int>(state)];
}

RunReport::RunReport(ReportSources sources) : sources_(std::move(sources)), date_(date_now()) {
  if (!sources_.settings.resume.empty()) events = earlier_events(sources_.settings.resume);
}

void RunReport::record(RecordedUpdates recorded) {
  if (!recorded_.empty() && recorded_.back().first.since == recorded.since) recorded_.pop_back();
  recorded_.emplace_back(std::move(recorded), std::nullopt);
}

const RecordedFacts& RunReport::facts(std::size_t recording) {
  auto& [recorded, facts] = recorded_.at(recording);
  if (facts) return *facts;
  RecordingContext context{sources_.training, sources_.settings.pretended.get(), {}};
  const bool on_cores = std::string_view(sources_.device->backend().name()) == "cpu";
  if (on_cores) context.shared = shared_cores(cores);
  return facts.emplace(facts_of(recorded, context));
}

double RunReport::bubble(double seconds) const {
  return 1 - busy / (plan().ranks() * std::max(seconds, 1e-9));
}

std::string RunReport::drains() const {
  int all = 0;
  std::string reasons;
  for (const auto& [why, count] : drained) {
    all += count;
    reasons += text(reasons.empty() ? "" : ", ", count == 1 ? "" : text(count, " x "), why);
  }
  return text(all, all == 1 ? " time (" : " times (", reasons, ")");
}

json RunReport::figures(const RunLog& log) {
  const SessionSettings& settings = sources_.settings;
  std::map<std::string, std::int64_t> sent;
  for (const auto& [name, bytes] : bytes_sent) sent[name.second] += bytes;
  const double rate = log.units_per_second();
  json result{{"command", command_line()},
              {"version", autograd::version()},
              {"date", date_},
              {"machine", machine_json(cores)},
              {"state", name_of(state)},
              {"config", settings.config},
              {"parameters", sources_.training.whole.numel()},
              {"ranks", plan().ranks()},
              {"steps", steps},
              {"steps_asked", settings.steps},
              {"complete", state == RunState::finished},
              {"loss", log.last_loss()},
              {"seconds", log.seconds()},
              {settings.unit + "_per_second", rate},
              {settings.unit + "_per_update", settings.units_per_step},
              {"peak_bytes", peaks},
              {"bytes_sent", sent},
              {"events", events_json(events)}};
  result["machine"]["device"] = sources_.device->backend().name();
  result.update(facts(recorded_.size() - 1).summary);
  result["saving"] = {{"seconds", saving},
                      {"share", saving / std::max(log.seconds() + saving, 1e-9)}};
  result["bubble"]["all_steps"] = bubble(log.seconds());
  if (!drained.empty()) result["drained"] = drained;
  if (const auto shared = shared_cores(cores))
    result["shared_cores"] = {{"ranks", shared->ranks}, {"cores", shared->cores}};
  if (settings.pretended) result["pretended"] = summary_of(*settings.pretended, pretended);
  if (matmul_rate_)
    result["model_flops_utilization"] = rate * settings.flops_per_unit / *matmul_rate_;
  if (!bits.empty()) result["bits"] = bits;
  if (pruned) result["pruned"] = *pruned;
  if (!peaks_pruned.empty()) result["peak_bytes_pruned"] = peaks_pruned;
  if (!peaks_validating.empty()) result["peak_bytes_validation"] = peaks_validating;
  if (!profile.is_null()) result["profile"] = profile;
  result.update(more);
  return result;
}

json RunReport::page(const RunLog& log) {
  constexpr std::size_t points = 800;
  const SessionSettings& settings = sources_.settings;
  json summary = figures(log), windows = json::array(), sent = json::object();
  summary.erase("breakdown");  // which the windows have
  for (std::size_t i = 0; i < recorded_.size(); ++i) windows.push_back(facts(i).page);
  for (const auto& [name, bytes] : bytes_sent) {
    auto& ranks = sent[name.second];
    if (ranks.is_null()) ranks = std::vector<std::int64_t>(plan().ranks());
    ranks[name.first] = bytes;
  }
  json result{{"title", settings.title},
              {"unit", settings.unit},
              {"summary", std::move(summary)},
              {"about_times", facts(recorded_.size() - 1).about_times},
              {"metrics", log.metrics().columns(points)},
              {"windows", std::move(windows)},
              {"bytes_sent", std::move(sent)},
              {"written", date_now()}};
  if (settings.pretended) result["pretended"] = facts_of(*settings.pretended, pretended);
  if (!drained.empty()) result["drains"] = drains();
  return result;
}

void RunReport::write(const RunLog& log) {
  if (recorded_.empty() || log.is_beside_earlier()) return;
  const std::filesystem::path& out = sources_.settings.out;
  nn::write_file(out / "summary.json", figures(log).dump(2) + "\n");
  const SessionSettings& settings = sources_.settings;
  if (settings.pages.report)
    nn::write_file(out / "report.html", settings.pages.report(settings.title, page(log).dump()));
}

void RunReport::write_end(RunLog& log) {
  const SessionSettings& settings = sources_.settings;
  if (const std::string late = lateness(pretended); !late.empty()) log.say(late);
  // The rate of pretended devices is not this one's.
  const bool is_own_rate = !settings.pretended || !settings.pretended->computes();
  if (is_own_rate && settings.flops_per_unit > 0) matmul_rate_ = matmul_rate(sources_.device);
  write(log);
  log.say(text("figures of the run: ", (settings.out / "summary.json").string()));
  const RecordedUpdates& last = recorded_.back().first;
  const std::vector<Panel> panels = {{"measured", last.timeline},
                                     {"simulated", facts(recorded_.size() - 1).planned}};
  nn::write_file(settings.out / "trace.json", draw_trace(panels, last.memory));
  nn::write_file(settings.out / "recorded.plan", print(last.plan));
  if (settings.pages.plan)
    nn::write_file(settings.out / "plan.html",
                   settings.pages.plan(player_request_of(last, settings.title).dump()));
  log.say(text("ranks waited ", std::round(1000 * saving) / 1000, " s for saves, ",
               std::round(10000 * saving / std::max(log.seconds() + saving, 1e-9)) / 100,
               "% of the time"));
  if (const std::string& line = facts(recorded_.size() - 1).about_times; !line.empty())
    log.say(line);
  if (!drained.empty())
    log.say(text("the pipeline drained ", drains(), "; the bubble of all steps is ",
                 std::round(1000 * bubble(log.seconds())) / 10, "%"));
  if (settings.pages.report) log.say(text("report: ", (settings.out / "report.html").string()));
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

}  // namespace plangrad::parallel
