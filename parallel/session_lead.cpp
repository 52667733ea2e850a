// Rank 0's part of a session: what is done when, and what is written and shown.
// Chapter 05.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "nn/checkpoint.h"
#include "nn/file.h"
#include "nn/matmul_rate.h"
#include "parallel/drawing/chart.h"
#include "parallel/run_report.h"
#include "parallel/session.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

using nlohmann::json;

namespace {

void make_writable(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  PG_CHECK(!problem && ::access(folder.c_str(), W_OK) == 0, "can't write to the folder ",
           folder.string(), "; choose another with --out");
}

double weighted_mean(const std::map<int, double>& values, const std::vector<double>& weights) {
  double sum = 0, count = 0;
  for (const auto& [micro, value] : values) {
    sum += weights[micro] * value;
    count += weights[micro];
  }
  return sum / count;
}

}  // namespace

bool Session::lead() {
  make_writable(settings_.out);
  make_writable(settings_.out / "checkpoint");
  log_.emplace(settings_.out, RunSpan{first_, settings_.steps, settings_.resume}, settings_.quiet,
               settings_.unit);
  log_->say(settings_.about);

  int last = settings_.steps;
  if (settings_.stop_after > 0) last = std::min(last, first_ + settings_.stop_after);
  while (steps_ < last && !settings_.interrupted()) {
    int before = steps_;
    train_some(last);
    if (due(settings_.evaluate_every, before) && steps_ < settings_.steps)
      log_->validation(steps_, validate(false));
    if (due(settings_.save_every, before) && steps_ < last) save();
  }
  if (steps_ > first_) save();

  if (steps_ < settings_.steps) {
    log_->say(text(settings_.interrupted() ? "interrupted" : "stopped", " after ", steps_, " of ",
                   settings_.steps, " steps; go on with --resume ", settings_.out.string()));
    return false;
  }
  validation_ = validate(true);
  log_->validation(steps_, validation_);
  log_->say(text("validation loss ", validation_.loss,
                 validation_.accuracy ? text(", accuracy ", *validation_.accuracy) : ""));
  peak_bytes_ = order({{"do", "measure memory"}});
  return true;
}

/// A plan covers about a second, so that progress is seen and an interruption is heard. Its length
/// does not change the numbers: versions are explicit.
int Session::next_steps(int last) const {
  if (settings_.steps_of_plan > 0) return settings_.steps_of_plan;
  int steps = steps_ == first_ ? 1 : 4;  // to measure; and to record for the report
  if (steps_ > first_ + 4) steps = std::clamp(static_cast<int>(1 / seconds_per_step_), 1, 1000);
  steps = std::min(steps, last - steps_);
  for (int every : {settings_.evaluate_every, settings_.save_every})
    if (every > 0) steps = std::min(steps, every - steps_ % every);
  return steps;
}

void Session::train_some(int last) {
  int steps = next_steps(last);
  bool recorded = steps_ <= first_ + 4;
  Plan plan = settings_.plan(steps_, steps);
  std::vector<json> answers = order({{"do", "train"}, {"steps", steps}, {"recorded", recorded}});

  WorldResult world(answers);
  int number = plan.first;
  for (StepResult step : world.steps(plan)) {
    step.learning_rate = engine_.training().learning_rate.at(number);
    step.units = settings_.units_per_step;
    seconds_per_step_ = step.seconds;  // of all steps of the plan alike
    log_->step(++number, step);
  }
  for (const auto& [kind, bytes] : world.bytes_sent()) bytes_sent_[kind] += bytes;
  if (!recorded) return;
  recorded_plan_ = std::move(plan);
  recorded_ = world.timeline();
  memory_.clear();
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    for (const MemorySample& sample :
         memory_samples(static_cast<int>(rank), answers[rank].at("memory")))
      memory_.push_back(sample);
}

/// Means over the validation data.
ValidationResult Session::validate(bool all) {
  WorldResult world(order({{"do", "validate"}, {"all", all}}));
  const std::vector<double> weights = data_.validation_weights(all);
  ValidationResult result{weighted_mean(world.losses(), weights), {}};
  if (!world.accuracies().empty()) result.accuracy = weighted_mean(world.accuracies(), weights);
  return result;
}

void Session::save() {
  std::vector<CheckpointFile> files;
  for (const json& answer : order({{"do", "save"}}))
    for (const json& file : answer) files.push_back({file[0], file[1]});
  commit_checkpoint(settings_.out / "checkpoint", steps_, settings_.run, files);
  log_->replace_earlier();
}

/// Losses are the run's; time, rate and memory are this session's. The device's matrix-product rate
/// is measured now.
void Session::report() {
  Timeline simulated = simulate(verify(recorded_plan_), measured_costs(recorded_plan_, recorded_));
  double rate = static_cast<double>(log_->units()) / std::max(log_->seconds(), 1e-9);
  double flops = rate * settings_.flops_per_unit;
  const std::vector<Sending> sent = sendings(recorded_plan_, recorded_);
  json summary{{"config", settings_.config},
               {"loss", log_->last_loss()},
               {"validation_loss", validation_.loss},
               {"seconds", log_->seconds()},
               {settings_.unit + "_per_second", rate},
               {"model_flops_utilization", flops / matmul_rate(engine_.device())},
               {"peak_bytes", peak_bytes_},
               {"bytes_sent", bytes_sent_},
               {"peak_activations", std::llround(memory_total(memory_, "activations").peak)},
               {"time_step", time_step(recorded_)},
               {"largest_burst", largest_burst(sent, time_step(recorded_))},
               {"bubble", {{"measured", recorded_.bubble()}, {"simulated", simulated.bubble()}}}};
  if (validation_.accuracy) summary["validation_accuracy"] = *validation_.accuracy;
  log_->summary(summary);
  write_file(settings_.out / "trace.json", draw_trace(recorded_, memory_));

  Report page{settings_.title, {}, {}, {}, memory_, traffic(recorded_), sent};
  auto percent = [](double share) { return text(std::round(1000 * share) / 10, " %"); };
  page.facts = {{"ranks", std::to_string(recorded_.ranks)},
                {"steps", std::to_string(steps_)},
                {"validation loss", text(validation_.loss)},
                {settings_.unit + " per second", text(std::round(rate))},
                {"bubble measured", percent(recorded_.bubble())},
                {"bubble simulated", percent(simulated.bubble())}};
  std::string steps =
      text("steps ", recorded_plan_.first + 1, " to ", recorded_plan_.first + recorded_plan_.steps);
  if (validation_.accuracy)
    page.facts.emplace_back("validation accuracy", percent(*validation_.accuracy));
  page.panels = {{"measured, " + steps, recorded_},
                 {"simulated from the measured costs, " + steps, simulated}};
  page.curves = {loss_curve(log_->path())};
  write_file(settings_.out / "report.html", draw_html(page));
  log_->say(text("report: ", (settings_.out / "report.html").string()));
}

}  // namespace paragrad::parallel
