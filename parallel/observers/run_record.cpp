// What was recorded is worked out once; the rest is written anew each time, from numbers that are
// here anyway, so that a run can be watched without being slowed down. Chapter 06.
#include "parallel/observers/run_record.h"

#include <fmt/chrono.h>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/version.h"
#include "parallel/drawing/draw.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {
using nlohmann::json;
namespace fs = std::filesystem;

Summing sums_of(Lead& lead) {
  const Engine::Settings& engine = lead.engine().settings();
  const bool by_transport = engine.reduction == AllReduce::by_transport;
  return {by_transport ? AllReduce::ring : engine.reduction, engine.hosts};
}

std::string date_now() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
}

/// Takes the events and the run's first command from an earlier session's summary.
static void add_earlier(const fs::path& folder, json& events, std::string& begun_by) {
  try {
    const json summary = json_in(folder / "summary.json");
    for (const json& event : summary.at("events"))
      events.push_back({{"step", static_cast<int>(nn::whole_number(event.at("step")))},
                        {"what", event.at("what").get<std::string>()},
                        {"text", event.at("text").get<std::string>()}});
    begun_by = summary.value("begun_by", summary.at("command").get<std::string>());
  } catch (const std::exception&) {
    // A damaged summary only tells less.
  }
}

MeasuredRank RunRecord::carry_out(SessionRank& rank, const Nothing&) {
  return {rank.peaks().found(), cores_here()};
}

void RunRecord::ready(Lead& lead) {
  date_ = date_now();
  own_ = OwnFiles(lead.settings().out);
  steps_ = lead.first();
  if (!lead.settings().resume.empty()) {
    const json own = std::exchange(events_, json::array());  // what other observers told so far
    add_earlier(lead.settings().resume, events_, begun_by_);
    events_.insert(events_.end(), own.begin(), own.end());
  }
  ranks_ = ask(lead);
}

void RunRecord::heard(Lead& lead, const Heard& heard) {
  for (std::size_t rank = 0; rank < heard.results.size(); ++rank)
    for (const auto& [kind, bytes] : heard.results[rank].bytes_sent)
      bytes_sent_[{static_cast<int>(rank), kind}] += bytes;
  if (!heard.updates.empty()) steps_ = heard.updates.back().version;
  const std::chrono::duration<double> old = std::chrono::steady_clock::now() - written_;
  if (old.count() >= settings_.report_every) write(lead);
}

void RunRecord::told(Lead&, const Told& told) {
  if (told.kind == Told::event)
    events_.push_back({{"step", told.step}, {"what", told.what}, {"text", told.value}});
}

void RunRecord::plan_ended(Lead& lead, const PlanEnd& plan) {
  if (plan.drained) ++drained_[plan.drained];
  if (plan.recorded) {
    if (!recordings_.empty() && recordings_.back().updates.since == plan.recorded->since)
      recordings_.pop_back();
    recordings_.push_back({*plan.recorded, std::nullopt});
  }
  if (plan.saves) ranks_ = ask(lead);
  if (!plan.saves && (!plan.recorded || lead.records())) return;
  const AtWork reporting(lead.engine().transport(), Work::reporting);  // facts are worked out now
  write(lead);
}

void RunRecord::ended(Lead& lead) {
  if (lead.steps() == lead.first()) return;
  ranks_ = ask(lead);
  const AtWork reporting(lead.engine().transport(), Work::reporting);
  write(lead, /*last*/ true);
}

std::string RunRecord::drains() const {
  if (drained_.empty()) return "";
  int all = 0;
  std::string reasons;
  for (const auto& [why, count] : drained_) {
    all += count;
    reasons += text(reasons.empty() ? "" : ", ", count == 1 ? "" : text(count, " x "), why);
  }
  return text(counted(all, "time"), " (", reasons, ")");
}

json RunRecord::summary(Lead& lead) {
  const Plan& plan = recordings_.back().updates.plan;
  const std::string& unit = log_.settings().unit;
  const auto left_out = std::max<std::ptrdiff_t>(0, std::ssize(events_) - 300);  // the first ones
  std::map<std::string, std::int64_t> sent;
  for (const auto& [name, bytes] : bytes_sent_) sent[name.second] += bytes;
  std::vector<RankCores> cores;
  for (const MeasuredRank& rank : ranks_) cores.push_back(rank.cores);
  const double rate = log_.units_per_second(), seconds = log_.seconds();
  const double saving = lead.waited_for_saves();
  json result{{"command", command_line()},
              {"begun_by", begun_by_},
              {"version", autograd::version()},
              {"date", date_},
              {"machine", machine_json(cores)},
              {"state", name_of(lead.state())},
              {"config", settings_.config},
              {"parameters", lead.engine().training().whole.numel()},
              {"ranks", plan.ranks()},
              {"steps", steps_},
              {"steps_asked", lead.settings().steps},
              {"session_steps", steps_ - lead.first()},
              {"complete", lead.state() == RunState::finished},
              {"loss", log_.last_loss()},
              {"seconds", seconds},
              {unit + "_per_second", rate},
              {unit + "_per_update", log_.settings().units_per_step},
              {"bytes_sent", sent},
              {"events", json(events_.begin() + left_out, events_.end())}};
  result["machine"]["device"] = lead.engine().device()->backend().name();
  const bool on_cores = std::string_view(lead.engine().device()->backend().name()) == "cpu";
  if (on_cores && !settings_.pretended)
    result["machine"]["threads"] = autograd::compute_threads();  // of the rank that leads
  const std::optional<SharedCores> shared = shared_cores(cores);
  for (auto& [updates, facts] : recordings_)
    if (!facts)
      facts = facts_of(
          updates, {settings_.pretended.get(), on_cores ? shared : std::nullopt, sums_of(lead)});
  result.update(recordings_.back().facts->summary);
  result["saving"] = {{"seconds", saving}, {"share", saving / std::max(seconds + saving, 1e-9)}};
  result["bubble"]["all_steps"] = log_.bubble();
  if (!drained_.empty()) result["drained"] = drained_;
  if (shared) result["shared_cores"] = {{"ranks", shared->ranks}, {"cores", shared->cores}};
  if (matmul_rate_)
    result["model_flops_utilization"] = rate * settings_.flops_per_unit / *matmul_rate_;
  for (const MeasuredRank& rank : ranks_)
    for (const auto& [part, peaks] : rank.peaks)
      result[part.empty() ? "peak_bytes" : "peak_bytes_" + part].push_back(peaks);
  result.update(lead.summary());
  return result;
}

void RunRecord::write_file(Lead& lead, const std::string& name, std::string_view bytes) {
  const fs::path file = lead.settings().out / name;
  const std::string changed = own_.make_way(file);
  if (!changed.empty()) lead.warn("others have changed the run's files" + changed);
  nn::write_file(file, bytes);
  own_.note(file);
}

/// Writes what is known now for those who watch the run. Also in the midst of a plan, where ranks
/// wait no longer than it takes to write numbers that are here. Nothing before updates are
/// recorded, or while the folder is an earlier run's.
void RunRecord::write(Lead& lead, bool last) {
  try {
    if (last) {
      write_end(lead);
    } else if (!recordings_.empty() && !log_.is_beside_earlier()) {
      const json found = summary(lead);
      write_file(lead, "summary.json", found.dump(2) + "\n");
      draw(lead, found, last);
    }
    lacks_report_ = false;
  } catch (const Error& error) {  // what was trained is not lost for a page
    if (!std::exchange(lacks_report_, true) || last) lead.warn(error.what());
  }
  written_ = std::chrono::steady_clock::now();
}

/// Measures the device's matrix-product rate now.
void RunRecord::write_end(Lead& lead) {
  const fs::path& out = lead.settings().out;
  // The rate of pretended devices is not this one's.
  const bool is_own_rate = !settings_.pretended || !settings_.pretended->computes();
  if (is_own_rate && settings_.flops_per_unit > 0)
    matmul_rate_ = matmul_rate(lead.engine().device());
  json found = summary(lead);
  write_file(lead, "summary.json", found.dump(2) + "\n");
  lead.say(text("figures of the run: ", (out / "summary.json").string()));
  const auto& [updates, facts] = recordings_.back();
  write_file(lead, "trace.json",
             draw_trace({{"measured", updates.timeline}, {"simulated", facts->simulated()}},
                        updates.memory));
  write_file(lead, "recorded.plan", print(updates.plan));
  const json& saving = found["saving"];
  lead.say(text("ranks waited ", std::round(1000 * saving["seconds"].get<double>()) / 1000,
                " s for saves, ", std::round(10000 * saving["share"].get<double>()) / 100,
                "% of the time"));
  for (const std::string& line : facts->about_times) lead.say(line);
  if (!drained_.empty())
    lead.say(text("the pipeline drained ", drains(), "; the bubble of all steps is ",
                  std::round(1000 * log_.bubble()) / 10, "%"));
  draw(lead, found, /*last*/ true);
  found["files"] = log_.files_written();  // another session knows by them what others have changed
  for (const char* name : {"trace.json", "recorded.plan", "report.html", "plan.html"})
    found["files"][name] = written_in(out / name);
  write_file(lead, "summary.json", found.dump(2) + "\n");
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
