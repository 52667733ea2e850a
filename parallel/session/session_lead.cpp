// Rank 0's part of a session: what is done when, and what is written and shown.
// Chapter 05.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/chart.h"
#include "parallel/session/codec_state.h"
#include "parallel/session/matmul_rate.h"
#include "parallel/session/run_report.h"
#include "parallel/session/session.h"
#include "parallel/transports/at_work.h"

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
  if (!lost_.empty()) log_->say(lost_);

  int last = settings_.steps;
  if (settings_.stop_after > 0) last = std::min(last, first_ + settings_.stop_after);
  if (pruner_ && steps_ == 0 && pruner_->next_look(0) == 0) order_pruning();
  while (steps_ < last && !settings_.interrupted()) {
    int before = steps_;
    train_some(last);
    if (due(settings_.evaluate_every, before) && steps_ < settings_.steps)
      log_->validation(steps_, validate(false));
    if (due(settings_.save_every, before) && steps_ < last) save();
  }
  if (steps_ > first_) save();
  end();
  if (steps_ > first_) report();
  return stopped_.empty();
}

void Session::end() {
  if (steps_ < settings_.steps) {
    stopped_ = settings_.interrupted() ? "interrupted" : "stopped";
    return log_->say(text(stopped_, " after ", steps_, " of ", settings_.steps,
                          " steps; go on with --resume ", settings_.out.string()));
  }
  validation_ = validate(true);
  log_->validation(steps_, *validation_);
  log_->say(text("validation loss ", validation_->loss,
                 validation_->accuracy ? text(", accuracy ", *validation_->accuracy) : ""));
}

/// The first plans are; what the report shows is the last of them.
bool Session::is_recorded() const { return steps_ <= first_ + settings_.reported_steps; }

int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest) {
  const bool delayed = *std::max_element(like.keep.begin(), like.keep.end()) > 1;
  const int most = 1000;
  return std::clamp(static_cast<int>(std::min<double>(most, 1 / seconds_per_step)),
                    delayed ? fewest : 1, most);
}

/// Its length does not change the numbers: versions are explicit.
int Session::next_steps(int last) const {
  if (settings_.steps_of_plan > 0) return settings_.steps_of_plan;
  int steps = steps_ == first_ ? 1 : settings_.reported_steps;  // to measure; and to record
  if (!is_recorded())
    steps = steps_in_a_second(seconds_per_step_, recorded_plan_, settings_.reported_steps);
  steps = std::min(steps, last - steps_);
  for (int every : {settings_.evaluate_every, settings_.save_every, bits_every_})
    if (every > 0) steps = std::min(steps, every - steps_ % every);
  if (pruner_) steps = std::min(steps, pruner_->next_look(steps_ + 1) - steps_);
  return steps;
}

void Session::train_some(int last) {
  int steps = next_steps(last);
  bool recorded = is_recorded();
  const Plan plan = settings_.plans->get(steps_, steps)->plan();
  std::vector<json> answers = order({{"do", "train"}, {"steps", steps}, {"recorded", recorded}});

  WorldResult world(answers);
  int number = plan.first;
  for (StepResult step : world.steps(plan)) {
    step.learning_rate = engine_.training().learning_rate.at(number);
    step.units = settings_.units_per_step;
    seconds_per_step_ = step.seconds;  // of all steps of the plan alike
    log_->step(++number, step);
  }
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    for (const auto& [kind, bytes] : answers[rank].at("bytes").items())
      bytes_sent_[{static_cast<int>(rank), kind}] += bytes.get<std::int64_t>();
  if (due(bits_every_, number - steps)) choose_bits(answers);
  if (pruner_ && pruner_->next_look(number - steps + 1) <= number) order_pruning();
  if (!recorded) return;
  recorded_plan_ = ran(plan, answers);
  recorded_ = world.timeline();
  memory_.clear();
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    for (const MemorySample& sample :
         memory_samples(static_cast<int>(rank), answers[rank].at("memory")))
      memory_.push_back(sample);
}

// [snippet choose_bits]
/// From what ranks measured in the last update.
void Session::choose_bits(const std::vector<json>& answers) {
  AdaptiveBits adaptive;
  for (const json& answer : answers) adaptive.add(bit_options(answer));
  bits_ = adaptive.choose();
  order({{"do", "set bits"}, {"bits", bits_}});
  log_->bits(steps_, bits_);
}
// [end snippet]

/// All ranks find the same.
void Session::order_pruning() {
  const json found = order({{"do", "prune"}, {"bits", bits_}}).front();
  log_->pruning(steps_, found);
  if (found.contains("pruned"))
    log_->say(text("step ", steps_, ": pruned to ", found.at("kept"), " of ", found.at("elements"),
                   " elements"));
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
  json codecs = json::array();
  for (const json& answer : order({{"do", "save"}})) {
    for (const json& file : answer.at("files")) files.push_back({file[0], file[1]});
    codecs.push_back(answer.at("codec"));
  }
  AtWork saving(engine_.transport(), Work::saving);
  json run = settings_.run;
  if (!bits_.empty()) run["bits"] = bits_;
  for (const auto& [stage, store] : engine_.stores())
    if (store.begun() > 0) run["rewound"] = store.begun();  // all at once
  const Plan plan = settings_.plans->get(steps_, std::max(1, settings_.steps_of_plan))->plan();
  if (plan.codec != CodecSpec() || plan.channel != CodecSpec())
    run["codec"] = {{"layout", codec_layout(engine_, plan)}, {"numbers", codecs}};
  commit_checkpoint(settings_.out / "checkpoint", steps_, run, files);
  log_->replace_earlier();
}

/// Of runs that were stopped, too. The other ranks wait meanwhile.
void Session::report() {
  for (const json& peaks : order({{"do", "measure memory"}})) {
    peak_bytes_.push_back(peaks.at("run"));
    if (peaks.contains("pruned")) peak_bytes_pruned_.push_back(peaks.at("pruned"));
  }
  AtWork reporting(engine_.transport(), Work::reporting);
  Timeline simulated = simulate(verify(recorded_plan_), measured_costs(recorded_plan_, recorded_));
  log_->summary(figures(simulated));
  write_file(settings_.out / "trace.json", draw_trace(recorded_, memory_));
  const std::filesystem::path recorded = settings_.out / "recorded.plan";
  std::filesystem::remove(recorded);  // of an earlier run
  if (driven_) write_file(recorded, print(recorded_plan_));
  write_file(settings_.out / "report.html", draw_html(page(simulated)));
  log_->say(text("report: ", (settings_.out / "report.html").string()));
}

/// Losses are the run's; time, rate and memory are this session's. The device's matrix-product rate
/// is measured now.
json Session::figures(const Timeline& simulated) const {
  std::map<std::string, std::int64_t> bytes_sent;
  for (const auto& [name, bytes] : bytes_sent_) bytes_sent[name.second] += bytes;
  double rate = units_per_second(), flops = rate * settings_.flops_per_unit;
  json result{{"config", settings_.config},
              {"steps", steps_},
              {"complete", stopped_.empty()},
              {"loss", log_->last_loss()},
              {"seconds", log_->seconds()},
              {settings_.unit + "_per_second", rate},
              {"model_flops_utilization", flops / matmul_rate(engine_.device())},
              {"peak_bytes", peak_bytes_},
              {"bytes_sent", bytes_sent},
              {"peak_activations", std::llround(memory_total(memory_, "activations").peak)},
              {"time_step", time_step(recorded_)},
              {"largest_burst",
               largest_burst(inner_sendings(recorded_plan_, recorded_), time_step(recorded_))},
              {"bubble", {{"measured", recorded_.bubble()}, {"simulated", simulated.bubble()}}}};
  if (!bits_.empty()) result["bits"] = bits_;
  if (pruner_) result["pruned"] = pruner_->summary();
  if (!peak_bytes_pruned_.is_null()) result["peak_bytes_pruned"] = peak_bytes_pruned_;
  if (validation_) result["validation_loss"] = validation_->loss;
  if (validation_ && validation_->accuracy) result["validation_accuracy"] = *validation_->accuracy;
  return result;
}

double Session::units_per_second() const {
  return static_cast<double>(log_->units()) / std::max(log_->seconds(), 1e-9);
}

Report Session::page(const Timeline& simulated) const {
  Report page{settings_.title, {}, {}, {}, memory_, {}, sendings(recorded_plan_, recorded_)};
  for (const auto& [name, bytes] : bytes_sent_)
    page.traffic.push_back({name.first, name.second, bytes});
  auto percent = [](double share) { return text(std::round(1000 * share) / 10, " %"); };
  std::string steps = std::to_string(steps_);
  if (!stopped_.empty()) steps = text(stopped_, " after ", steps_, " of ", settings_.steps);
  page.facts = {{"ranks", std::to_string(recorded_.ranks)}, {"steps", steps}};
  if (validation_) page.facts.push_back({"validation loss", text(validation_->loss)});
  if (validation_ && validation_->accuracy)
    page.facts.emplace_back("validation accuracy", percent(*validation_->accuracy));
  const json pruned = pruner_ ? pruner_->summary() : json();
  if (!pruned.is_null())
    page.facts.emplace_back("pruned", percent(pruned.at("fraction").get<double>()));
  page.facts.insert(page.facts.end(),
                    {{settings_.unit + " per second", text(std::round(units_per_second()))},
                     {"bubble measured", percent(recorded_.bubble())},
                     {"bubble simulated", percent(simulated.bubble())}});
  std::string shown =
      text("steps ", recorded_plan_.first + 1, " to ", recorded_plan_.first + recorded_plan_.steps);
  page.memory_of = shown;
  page.panels = {{"measured, " + shown, recorded_},
                 {"simulated from the measured costs, " + shown, simulated}};
  page.curves = {loss_curve(log_->path())};
  page.bits = bit_history(log_->path());
  return page;
}

}  // namespace paragrad::parallel
