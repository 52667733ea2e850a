// What was recorded is drawn once; the rest of a page is written anew each time. Chapter 06.
#include "examples/pages/run_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autograd/cpu/cpu_backend.h"
#include "examples/pages/player/player_page.h"
#include "examples/pages/report_page.h"
#include "examples/pages/report_window.h"
#include "parallel/schedules/plan_spec.h"
#include "parallel/simulation/machine.h"

namespace plangrad::examples {
using nlohmann::json;

/// The request of a run's plan.html: recorded updates, simulated with each stage's median costs.
///   simulated: what the report calls so, which has the computations' times
static json player_request_of(const RecordedUpdates& recorded, const Timeline& simulated,
                              const std::string& run, const json& flags, const Summing& sums) {
  const Plan& plan = recorded.plan;
  const std::string before = plan.steps == 1 ? " " : text("s ", plan.first + 1, " to ");
  Costs costs = measured_costs(plan, simulated, sums);
  costs.latency = measured_costs(plan, recorded.timeline, sums).latency;
  json known{{"forward", costs.forward},
             {"backward", costs.backward},
             {"input_part", costs.input_part},
             {"weight_part", costs.weight_part},
             {"step", costs.step},
             {"latency", costs.latency},
             {"reduction", name_of(sums.how)}};
  if (!sums.hosts.empty()) known["hosts"] = sums.hosts;
  json asked{{"plan", print(plan)},
             {"title", text(run, ": update", before, plan.first + plan.steps,
                            " with each stage's median costs")},
             {"costs", known}};
  if (!flags.contains("--schedule")) return asked;
  for (const SpecField* field : spec_fields())
    if (const json flag = flags.value(field->flag_name(), json());
        !field->of_plans && !flag.is_null() && flag != "")
      asked["of"][field->name] = flag;
  asked["of"].update({{"steps", plan.steps}, {"clip", plan.clip}});
  if (!plan.tied.empty()) asked["of"]["tied"] = true;
  return asked;
}

/// The costs of the run's model for a microbatch, whose inputs are ids or values.
static ModelCosts costs_of_model(Lead& lead, int micro) {
  const Training& training = lead.engine().training();
  const Tensor inputs = lead.data().training().inputs(micro, cpu_device());
  const Tensor targets = lead.data().training().targets(micro, cpu_device());
  const auto example = [](const std::vector<std::int64_t>& sizes) {
    return std::vector(sizes.begin() + 1, sizes.end());
  };
  const bool on_cores = std::string_view(lead.engine().device()->backend().name()) == "cpu";
  return model_costs(
      {"", training.model, example(inputs.shape().sizes()), example(targets.shape().sizes()),
       inputs.dtype() == DType::i32 ? 1 : 0, training.optimizer},
      training.stages(),
      {.dtype = training.dtype,
       .examples = static_cast<int>(inputs.shape()[0]),
       .recompute_layers = training.recompute_layers,
       .cuts = {training.cuts.begin() + 1, training.cuts.end() - 1},
       .like = on_cores ? std::make_shared<autograd::CpuBackend>() : nullptr});
}

RunPage::RunPage(RunLog& log, RecordSettings settings, std::string title)
    : RunRecord(log, std::move(settings)), title_(std::move(title)) {
  log.on_line([this](const json& line) { table_.add(line); });
}

void RunPage::draw(Lead& lead, const json& summary, bool last) {
  const auto& out = lead.settings().out;
  const std::string title = folder_name(out) + ": " + title_;
  write_file(lead, "report.html", run_page(title, page(lead, summary, title).dump()));
  if (!last) return;
  const auto& [updates, facts] = recordings().back();
  const json flags = summary["config"].value("flags", json::object());
  const json asked =
      player_request_of(updates, facts->simulated(), folder_name(out), flags, sums_of(lead));
  write_file(lead, "plan.html", player_page({{asked.dump()}}, command_line()));
  lead.say(text("report: ", (out / "report.html").string()));
}

json RunPage::page(Lead& lead, json summary, const std::string& title) {
  constexpr std::size_t points = 800;
  json windows = json::array(), sent = json::object();
  for (const Recording& recording : recordings()) {
    const Plan& plan = recording.updates.plan;
    json& window = windows_[plan.first];
    if (window.is_null())
      window = window_json(recording.updates, *recording.facts,
                           costs_of_model(lead, plan.first_micro()), sums_of(lead));
    windows.push_back(window);
  }
  for (const auto& [name, bytes] : bytes_sent()) {
    auto& ranks = sent[name.second];
    if (ranks.is_null()) ranks = std::vector<std::int64_t>(lead.engine().transport().size());
    ranks[name.first] = bytes;
  }
  json result{{"title", title},
              {"unit", log().settings().unit},
              {"about_times", !recordings().back().facts->about_times.empty()},
              {"metrics", table_.columns(points)},
              {"windows", std::move(windows)},
              {"bytes_sent", std::move(sent)},
              {"written", date_now()}};
  if (summary.contains("pretended")) result["pretended"] = pretended_facts(summary["pretended"]);
  if (const std::string drained = drains(); !drained.empty()) result["drains"] = drained;
  summary.erase("breakdown");  // which the windows have
  result["summary"] = std::move(summary);
  return result;
}

std::vector<std::pair<std::string, std::string>> pretended_facts(const json& summary) {
  std::vector<std::pair<std::string, std::string>> facts;
  std::string devices;
  for (const auto& [key, words] :
       {std::pair("forward", "forward"), {"backward", "backward"}, {"step", "update"}})
    if (summary.contains(key))
      devices += fmt::format("{}{} {} s", devices.empty() ? "" : ", ", words,
                             fmt::join(summary[key].get<std::vector<double>>(), "; "));
  if (summary.contains("computations")) facts.emplace_back("pretended devices", devices);
  if (summary.contains("machine"))
    facts.emplace_back("pretended links",
                       "of the machine " + summary["machine"].get<std::string>());
  if (summary.contains("bandwidth")) {
    const int ranks = summary.value("ranks_per_card", 0);
    facts.emplace_back("pretended links",
                       fmt::format("{} s, {} bytes/s{}", summary["latency"].get<double>(),
                                   summary["bandwidth"].get<double>(),
                                   ranks > 0 ? ", a card for " + counted(ranks, "rank") : ""));
  }
  if (const std::int64_t late = summary.value("late", 0); late > 0)
    facts.emplace_back("not as pretended", lateness(late, summary["computations"]));
  return facts;
}

}  // namespace plangrad::examples
