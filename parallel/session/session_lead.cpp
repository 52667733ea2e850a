// Rank 0's part of a session: what is done when, and what is written and shown.
// Not here: how an order is carried out (session_rank.cpp).
// Chapter 05.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/session/run_report.h"
#include "parallel/session/state_files.h"
#include "parallel/simulation/simulate.h"

namespace paragrad::parallel {

using nlohmann::json;

namespace {

double weighted_mean(const std::map<int, double>& values, const std::vector<double>& weights) {
  double sum = 0, count = 0;
  for (const auto& [micro, value] : values) {
    sum += weights[micro] * value;
    count += weights[micro];
  }
  return sum / count;
}

/// Rank 0, which leads all ranks.
class Lead : public SessionRank {
 public:
  using SessionRank::SessionRank;
  /// Returns whether the run is complete.
  bool run();

 private:
  void train_next_plan(int last);
  int next_steps(int last);
  bool hear(const std::vector<RunResult>& results) override;
  void log_steps(int last);
  void choose_bits(const std::vector<RunResult>& results);
  void prune();
  ValidationResult validate(bool all);
  void save();
  void end();
  void report();

  bool is_recorded() const;
  bool due(int every, int before) const { return every > 0 && steps_ / every > before / every; }

  RunLog log_{settings_, first_};
  double seconds_per_step_ = 0;
  // Of the plan that runs:
  RunResult unlogged_;             // of all ranks, of updates that some have still to make
  int logged_ = 0, per_step_ = 1;  // the last update that was logged; microbatches
  double heard_seconds_ = 0;       // when it was made
  bool clips_ = false;
  RunReport report_;
};

bool Lead::run() {
  log_.say(settings_.about);
  if (!lost_.empty()) log_.say(lost_);

  int last = settings_.steps;
  if (settings_.stop_after > 0) last = std::min(last, first_ + settings_.stop_after);
  if (pruner_ && steps_ == 0 && pruner_->next_pruning(0) == 0) prune();
  while (steps_ < last && !settings_.interrupted()) {
    int before = steps_;
    train_next_plan(last);
    if (due(settings_.evaluate_every, before) && steps_ < settings_.steps)
      log_.validation(steps_, validate(false));
    if (due(settings_.save_every, before) && steps_ < last) save();
  }
  const bool trained = steps_ > first_;
  if (trained) save();
  end();
  if (trained) report();
  order(End());
  return report_.stopped.empty();
}

void Lead::end() {
  if (steps_ < settings_.steps) {
    report_.stopped = settings_.interrupted() ? "interrupted" : "stopped";
    return log_.say(text(report_.stopped, " after ", steps_, " of ", settings_.steps,
                         " steps; continue with --resume ", settings_.out.string()));
  }
  report_.validation = validate(true);
  log_.validation(steps_, *report_.validation);
  const auto& [loss, accuracy] = *report_.validation;
  log_.say(text("validation loss ", loss, accuracy ? text(", accuracy ", *accuracy) : ""));
}

/// The first plans are recorded; the report shows the last of them.
bool Lead::is_recorded() const { return steps_ <= first_ + settings_.reported_steps; }

/// The updates of the next plan. A plan's length does not change any number: versions are explicit.
int Lead::next_steps(int last) {
  if (const int fixed = settings_.plans->fixed_steps(); fixed > 0) return fixed;
  const int done = steps_;
  int steps = done == first_ ? 1 : settings_.reported_steps;  // to measure; then to record
  if (!is_recorded())
    steps = endless_plan()
                ? last - done
                : steps_in_a_second(seconds_per_step_, report_.plan, settings_.reported_steps);
  steps = std::min(steps, last - done);
  for (int every : {settings_.evaluate_every, settings_.save_every, bits_every_})
    if (every > 0) steps = std::min(steps, every - done % every);
  if (pruner_) steps = std::min(steps, pruner_->next_pruning(done + 1) - done);
  return steps;
}

void Lead::train_next_plan(int last) {
  const int before = steps_;
  Train train{next_steps(last), is_recorded()};
  if (const Plans::Shared endless = train.recorded ? nullptr : endless_plan())
    if (const Plan& plan = endless->plan(); train.steps > plan.steps)
      train.report_every = std::max(1, static_cast<int>(1 / seconds_per_step_ / plan.period));
  const Plan plan = train.report_every > 0 ? endless_plan()->plan()
                                           : settings_.plans->get(before, train.steps)->plan();
  logged_ = before;
  heard_seconds_ = 0;
  clips_ = plan.clip;
  per_step_ = plan.per_step;
  std::vector<RunResult> results;
  std::vector<std::vector<int>> orders;
  std::vector<MemorySample> memory;
  for (Train::Answer& answer : order(train)) {
    const int rank = static_cast<int>(results.size());
    for (const MemoryMeter::Event& event : answer.memory)
      memory.push_back({rank, event.seconds, name_of(event.category), event.live});
    orders.push_back(answer.result.order);
    results.push_back(std::move(answer.result));
  }
  hear(results);
  if (settings_.pretended)
    report_.pretended.computations +=
        settings_.pretended->computations(plan) / plan.steps * (steps_ - before);
  if (due(bits_every_, before)) choose_bits(results);
  if (pruner_ && pruner_->next_pruning(before + 1) <= steps_) prune();
  if (!train.recorded) return;
  report_.driven = plan.in_flight > 0;
  report_.plan = report_.driven ? recorded(plan, orders) : plan;
  report_.recorded = {plan.ranks(), merged(results).records};
  report_.memory = std::move(memory);
}

/// Takes what the ranks have found out since the last call, and logs the updates that all of them
/// have made.
bool Lead::hear(const std::vector<RunResult>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    for (const auto& [kind, bytes] : results[rank].bytes_sent)
      report_.bytes_sent[{static_cast<int>(rank), kind}] += bytes;
  std::vector<RunResult> all = results;
  all.push_back(std::exchange(unlogged_, {}));
  unlogged_ = merged(all);
  const auto behind = std::ranges::min_element(results, {}, &RunResult::last_step);
  if (behind->last_step > logged_) log_steps(behind->last_step);
  report_.pretended.late += std::exchange(unlogged_.late, 0);
  return !settings_.interrupted();
}

/// Logs a line for each update up to `last`: its mean loss, the gradient's norm, and an equal share
/// of the time since the last call, as without flushes ranks are in different updates at once.
void Lead::log_steps(int last) {
  RunResult& world = unlogged_;
  const int count = last - logged_;
  std::int64_t bytes = 0;
  for (const auto& [kind, sent] : std::exchange(world.bytes_sent, {})) bytes += sent;
  const double seconds = world.stepped.at(last);
  seconds_per_step_ = std::max((seconds - heard_seconds_) / count, 1e-9);
  heard_seconds_ = seconds;
  for (int version = logged_ + 1; version <= last; ++version) {
    StepResult step{.learning_rate = engine_.training().learning_rate.at(version - 1),
                    .seconds = seconds_per_step_,
                    .units = settings_.units_per_step,
                    .bytes_sent = bytes / count};
    for (int micro = (version - 1) * per_step_; micro < version * per_step_; ++micro)
      step.loss += world.losses.at(micro) / per_step_;
    if (clips_) {
      step.gradient_norm = world.norms.at(version);
    } else {
      const std::vector<double>& squares = world.squares.at(version);
      step.gradient_norm =
          std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step_;
    }
    log_.step(version, step);
  }
  logged_ = last;
  world.losses.erase(world.losses.begin(), world.losses.lower_bound(last * per_step_));
  for (auto* norms : {&world.norms, &world.stepped})
    norms->erase(norms->begin(), norms->upper_bound(last));
  world.squares.erase(world.squares.begin(), world.squares.upper_bound(last));
  world.records.clear();
}

// [snippet choose_bits]
/// Chooses bits by what the ranks measured in the last update.
void Lead::choose_bits(const std::vector<RunResult>& results) {
  std::vector<BitOptions> measured;
  for (const RunResult& result : results) measured.push_back(result.bit_options);
  order(SetBits{adaptive_bits(measured)});
  log_.note(steps_, "bits", bits_);
}
// [end snippet]

/// Prunes if it is time, and logs what rank 0 found; all ranks find the same.
void Lead::prune() {
  const json found = json::parse(order(Prune()).front());
  log_.note(steps_, "pruning", found);
  if (found.contains("pruned"))
    log_.say(text("step ", steps_, ": pruned to ", found.at("kept"), " of ", found.at("elements"),
                  " elements"));
}

/// Returns the weighted means over the validation data.
ValidationResult Lead::validate(bool all) {
  const RunResult world = merged(order(Validate{all}));
  const std::vector<double> weights = data_.validation_weights(all);
  ValidationResult result{weighted_mean(world.losses, weights), {}};
  if (!world.accuracies.empty()) result.accuracy = weighted_mean(world.accuracies, weights);
  return result;
}

void Lead::save() {
  std::vector<CheckpointFile> files;
  json codecs = json::array();
  for (const Save::Answer& answer : order(Save())) {
    for (const auto& [name, bytes] : answer.files) files.push_back({name, bytes});
    codecs.push_back(json::parse(answer.codec));
  }
  AtWork saving(engine_.transport(), Work::saving);
  json run = settings_.run;
  if (!bits_.empty()) run["bits"] = bits_;
  for (const auto& [stage, store] : engine_.stores())
    if (store.begun() > 0) run["rewound"] = store.begun();  // equal for all stages
  const Plan plan = like()->plan();
  if (!plan.codec.is_none() || !plan.channel.is_none())
    run["codec"] = {{"layout", codec_layout(engine_, plan)}, {"numbers", codecs}};
  commit_checkpoint(settings_.out / "checkpoint", steps_, run, files);
  log_.replace_earlier();
}

/// Writes the report, of a stopped run, too. The other ranks wait meanwhile.
void Lead::report() {
  std::vector<RankCores> cores;
  for (const MeasureMemory::Answer& peaks : order(MeasureMemory())) {
    cores.push_back(peaks.cores);
    report_.peaks.push_back(peaks.run);
    if (!peaks.pruned.empty()) report_.peaks_pruned.push_back(peaks.pruned);
  }
  AtWork reporting(engine_.transport(), Work::reporting);
  report_.steps = steps_;
  report_.shared = shared_cores(cores);
  report_.bits = bits_;
  if (pruner_) report_.pruned = pruner_->summary();
  report_.write(settings_, log_, engine_.device());
}

}  // namespace

int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest) {
  const bool delayed = *std::max_element(like.keep.begin(), like.keep.end()) > 1;
  const int most = 1000;
  return std::clamp(static_cast<int>(std::min<double>(most, 1 / seconds_per_step)),
                    delayed ? fewest : 1, most);
}

bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings) {
  if (transport.rank() == 0) return Lead(training, transport, device, data, settings).run();
  SessionRank(training, transport, device, data, settings).follow();
  return true;
}

}  // namespace paragrad::parallel
