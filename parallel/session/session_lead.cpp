// Rank 0's part of a session: what is done when, and what is written and shown.
// Not here: how an order is carried out (session_rank.cpp).
// Chapter 05.
#include <unistd.h>

#include <algorithm>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/session/codec_state.h"
#include "parallel/session/exchange.h"
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

RunLog make_log(const SessionRank& rank) {
  const SessionSettings& settings = rank.settings();
  make_writable(settings.out);
  make_writable(settings.out / "checkpoint");
  return {settings.out, RunSpan{rank.first(), settings.steps, settings.resume}, settings.quiet,
          settings.unit};
}

double weighted_mean(const std::map<int, double>& values, const std::vector<double>& weights) {
  double sum = 0, count = 0;
  for (const auto& [micro, value] : values) {
    sum += weights[micro] * value;
    count += weights[micro];
  }
  return sum / count;
}

/// Leads all ranks, through its own.
class Lead {
 public:
  explicit Lead(SessionRank& rank)
      : rank_(rank), settings_(rank.settings()), log_(make_log(rank)) {}
  /// Returns whether the run has come to its end.
  bool run();

 private:
  void train_some(int last);
  int next_steps(int last) const;
  void log_steps(const Plan& plan, const WorldResult& world);
  void choose_bits(const std::vector<RunResult>& results);
  void prune();
  ValidationResult validate(bool all);
  void save();
  void end();
  void report();

  bool is_recorded() const;
  bool due(int every, int before) const {
    return every > 0 && rank_.steps() / every > before / every;
  }

  SessionRank& rank_;
  const SessionSettings& settings_;
  RunLog log_;
  double seconds_per_step_ = 0;
  RunReport report_;
};

bool Lead::run() {
  log_.say(settings_.about);
  if (!rank_.lost().empty()) log_.say(rank_.lost());

  int last = settings_.steps;
  if (settings_.stop_after > 0) last = std::min(last, rank_.first() + settings_.stop_after);
  if (rank_.pruner() && rank_.steps() == 0 && rank_.pruner()->next_look(0) == 0) prune();
  while (rank_.steps() < last && !settings_.interrupted()) {
    int before = rank_.steps();
    train_some(last);
    if (due(settings_.evaluate_every, before) && rank_.steps() < settings_.steps)
      log_.validation(rank_.steps(), validate(false));
    if (due(settings_.save_every, before) && rank_.steps() < last) save();
  }
  const bool trained = rank_.steps() > rank_.first();
  if (trained) save();
  end();
  if (trained) report();
  return report_.stopped.empty();
}

void Lead::end() {
  if (rank_.steps() < settings_.steps) {
    report_.stopped = settings_.interrupted() ? "interrupted" : "stopped";
    return log_.say(text(report_.stopped, " after ", rank_.steps(), " of ", settings_.steps,
                         " steps; go on with --resume ", settings_.out.string()));
  }
  report_.validation = validate(true);
  log_.validation(rank_.steps(), *report_.validation);
  const auto& [loss, accuracy] = *report_.validation;
  log_.say(text("validation loss ", loss, accuracy ? text(", accuracy ", *accuracy) : ""));
}

/// The first plans are; what the report shows is the last of them.
bool Lead::is_recorded() const { return rank_.steps() <= rank_.first() + settings_.reported_steps; }

/// Its length does not change the numbers: versions are explicit.
int Lead::next_steps(int last) const {
  if (settings_.steps_of_plan > 0) return settings_.steps_of_plan;
  const int done = rank_.steps();
  int steps = done == rank_.first() ? 1 : settings_.reported_steps;  // to measure; and to record
  if (!is_recorded())
    steps = steps_in_a_second(seconds_per_step_, report_.plan, settings_.reported_steps);
  steps = std::min(steps, last - done);
  for (int every : {settings_.evaluate_every, settings_.save_every, rank_.bits_every()})
    if (every > 0) steps = std::min(steps, every - done % every);
  if (rank_.pruner()) steps = std::min(steps, rank_.pruner()->next_look(done + 1) - done);
  return steps;
}

void Lead::train_some(int last) {
  const int before = rank_.steps();
  const Train train{next_steps(last), is_recorded()};
  const Plan plan = settings_.plans->get(before, train.steps)->plan();
  std::vector<RunResult> results;
  std::vector<MemorySample> memory;
  for (Train::Answer& answer : rank_.order(train)) {
    for (const MemorySample& sample :
         memory_samples(static_cast<int>(results.size()), answer.memory))
      memory.push_back(sample);
    results.push_back(std::move(answer.result));
  }
  const WorldResult world(results);
  log_steps(plan, world);
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    for (const auto& [kind, bytes] : results[rank].bytes_sent)
      report_.bytes_sent[{static_cast<int>(rank), kind}] += bytes;
  if (due(rank_.bits_every(), before)) choose_bits(results);
  if (rank_.pruner() && rank_.pruner()->next_look(before + 1) <= rank_.steps()) prune();
  if (!train.recorded) return;
  report_.plan = ran(plan, results);
  report_.driven = plan.in_flight > 0;
  report_.recorded = world.timeline();
  report_.memory = std::move(memory);
}

void Lead::log_steps(const Plan& plan, const WorldResult& world) {
  int number = plan.first;
  for (StepResult step : world.steps(plan)) {
    step.learning_rate = rank_.engine().training().learning_rate.at(number);
    step.units = settings_.units_per_step;
    seconds_per_step_ = step.seconds;  // of all steps of the plan alike
    log_.step(++number, step);
  }
}

// [snippet choose_bits]
/// From what ranks measured in the last update.
void Lead::choose_bits(const std::vector<RunResult>& results) {
  AdaptiveBits adaptive;
  for (const RunResult& result : results) adaptive.add(result.bit_options);
  rank_.order(SetBits{adaptive.choose()});
  log_.bits(rank_.steps(), rank_.bits());
}
// [end snippet]

/// All ranks find the same.
void Lead::prune() {
  const json found = json::parse(rank_.order(Prune()).front());
  log_.pruning(rank_.steps(), found);
  if (found.contains("pruned"))
    log_.say(text("step ", rank_.steps(), ": pruned to ", found.at("kept"), " of ",
                  found.at("elements"), " elements"));
}

/// Means over the validation data.
ValidationResult Lead::validate(bool all) {
  const WorldResult world(rank_.order(Validate{all}));
  const std::vector<double> weights = rank_.data().validation_weights(all);
  ValidationResult result{weighted_mean(world.losses(), weights), {}};
  if (!world.accuracies().empty()) result.accuracy = weighted_mean(world.accuracies(), weights);
  return result;
}

void Lead::save() {
  std::vector<CheckpointFile> files;
  json codecs = json::array();
  for (const Save::Answer& answer : rank_.order(Save())) {
    for (const auto& [name, bytes] : answer.files) files.push_back({name, bytes});
    codecs.push_back(json::parse(answer.codec));
  }
  Engine& engine = rank_.engine();
  AtWork saving(engine.transport(), Work::saving);
  json run = settings_.run;
  if (!rank_.bits().empty()) run["bits"] = rank_.bits();
  for (const auto& [stage, store] : engine.stores())
    if (store.begun() > 0) run["rewound"] = store.begun();  // all at once
  const Plan plan = rank_.like()->plan();
  if (!plan.codec.is_none() || !plan.channel.is_none())
    run["codec"] = {{"layout", codec_layout(engine, plan)}, {"numbers", codecs}};
  commit_checkpoint(settings_.out / "checkpoint", rank_.steps(), run, files);
  log_.replace_earlier();
}

/// Of runs that were stopped, too. The other ranks wait meanwhile.
void Lead::report() {
  for (const MeasureMemory::Answer& peaks : rank_.order(MeasureMemory())) {
    report_.peaks.push_back(peaks.run);
    if (peaks.pruned) report_.peaks_pruned.push_back(*peaks.pruned);
  }
  AtWork reporting(rank_.engine().transport(), Work::reporting);
  report_.steps = rank_.steps();
  report_.bits = rank_.bits();
  if (rank_.pruner()) report_.pruned = rank_.pruner()->summary();
  report_.write(settings_, log_, rank_.engine().device());
}

}  // namespace

int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest) {
  const bool delayed = *std::max_element(like.keep.begin(), like.keep.end()) > 1;
  const int most = 1000;
  return std::clamp(static_cast<int>(std::min<double>(most, 1 / seconds_per_step)),
                    delayed ? fewest : 1, most);
}

bool Session::train() {
  if (rank_.engine().transport().rank() > 0) {
    rank_.follow();
    return true;
  }
  const bool complete = Lead(rank_).run();
  rank_.order(End());
  return complete;
}

}  // namespace paragrad::parallel
