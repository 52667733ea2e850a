// What rank 0 hears of all ranks, and what it writes and shows of it.
// Chapter 05.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/session/session_lead.h"

namespace plangrad::parallel {

using nlohmann::json;

double loss_of(const RunResult& world, int version, int per_step) {
  double loss = 0;
  for (int micro = (version - 1) * per_step; micro < version * per_step; ++micro)
    loss += world.losses.at(micro) / per_step;
  return loss;
}

double gradient_norm_of(const RunResult& world, int version, int per_step, bool clips) {
  if (clips) return world.norms.at(version);
  const std::vector<double>& squares = world.squares.at(version);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step;
}

/// Why the pipeline drained after the updates from `before` on.
const char* Lead::why_drained(int before, bool recorded) {
  if (is_interrupted()) return "interruption";
  if (const char* why = borders_.why(before, steps_)) return why;
  if (is_save_due()) return "checkpoint";
  if (recorded) return "recording";
  return endless_plan() ? "rest of a period" : "plan of fixed length";
}

/// Notes that the pipeline has drained. With drift, the first forwards after a drain read newer
/// weights than they would have read without it, so the log says where that was.
void Lead::note_drain(const char* why, bool drifts) {
  ++report_.drained[why];
  if (endless_plan()) report_.events.push_back({steps_, "drain", text("pipeline drained: ", why)});
  if (!drifts) return;
  log_.note(steps_, "drained", why);
  if (steps_ < settings_.steps)
    log_.say(text("step ", steps_, ": the pipeline drained (", why,
                  "), which with drift changes the numbers of the updates that follow"));
}

/// Takes what the ranks have found out since the last call, and logs the updates that all of them
/// have made.
bool Lead::hear(const std::vector<RunResult>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    report_.busy += results[rank].compute + results[rank].update;
    hears_of_stop_ = hears_of_stop_ || results[rank].interrupted;
    for (const auto& [kind, bytes] : results[rank].bytes_sent)
      report_.bytes_sent[{static_cast<int>(rank), kind}] += bytes;
  }
  std::vector<RunResult> all = results;
  all.push_back(std::exchange(unlogged_, {}));
  unlogged_ = merged(all);
  const auto behind = std::ranges::min_element(results, {}, &RunResult::last_step);
  if (behind->last_step > logged_) log_steps(behind->last_step);
  const int ranks = engine_.transport().size();
  const double idle = 1 - report_.busy / (ranks * std::max(log_.seconds(), 1e-9));
  const auto fullest = std::ranges::max_element(results, {}, &RunResult::peak);
  log_.ranks(ranks > 1 ? std::optional(idle) : std::nullopt, fullest->peak);
  report_.pretended.late += std::exchange(unlogged_.late, 0);
  const std::chrono::duration<double> old = std::chrono::steady_clock::now() - reported_;
  if (old.count() >= settings_.report_every) write_report();
  go_on_saving();
  if (!is_interrupted()) return !(is_save_due() && may_drain_anywhere());
  if (const int ahead = std::exchange(ahead_, 0))
    log_.say(text(
        "interrupted; ranks are ahead of each other, and end the same update together: at most ",
        ahead, " more. Press Ctrl-C again to end at once, without saving"));
  return false;
}

/// Logs a line for each update up to `last`: its mean loss, the gradient's norm, and the time from
/// the update before, each taken when the last rank had made it. Bytes are equal shares of those
/// sent since the last call, as without flushes ranks are in different updates at once.
void Lead::log_steps(int last) {
  RunResult& world = unlogged_;
  const int count = last - logged_;
  std::int64_t bytes = 0;
  for (const auto& [kind, sent] : std::exchange(world.bytes_sent, {})) bytes += sent;
  const double seconds = world.stepped.at(last);
  seconds_per_step_ = std::max((seconds - heard_seconds_) / count, 1e-9);
  for (int version = logged_ + 1; version <= last; ++version) {
    StepResult step{.learning_rate = engine_.training().learning_rate.at(version - 1),
                    .seconds = world.stepped.at(version) - heard_seconds_,
                    .units = settings_.units_per_step,
                    .bytes_sent = bytes / count};
    step.seconds = std::max(step.seconds, 1e-9);
    heard_seconds_ = world.stepped.at(version);
    step.loss = loss_of(world, version, per_step_);
    step.gradient_norm = gradient_norm_of(world, version, per_step_, clips_);
    log_.step(version, step);
  }
  logged_ = last;
  world.losses.erase(world.losses.begin(), world.losses.lower_bound(last * per_step_));
  for (auto* norms : {&world.norms, &world.stepped})
    norms->erase(norms->begin(), norms->upper_bound(last));
  world.squares.erase(world.squares.begin(), world.squares.upper_bound(last));
  world.records.clear();
}

/// Asks all ranks for their peaks and cores.
void Lead::measure_memory() {
  for (auto* list : {&report_.peaks, &report_.peaks_pruned, &report_.peaks_validating})
    list->clear();
  report_.cores.clear();
  for (const MeasureMemory::Answer& answer : order(MeasureMemory())) {
    report_.cores.push_back(answer.cores);
    report_.peaks.push_back(answer.run);
    if (!answer.pruned.empty()) report_.peaks_pruned.push_back(answer.pruned);
    if (!answer.validation.empty()) report_.peaks_validating.push_back(answer.validation);
  }
}

/// Asks all ranks what their kernels took, and shows it.
void Lead::tell_profile() {
  const std::vector<RankProfile> ranks = order(TellProfile());
  report_.profile = profile_json(ranks);
  log_.say(profile_table(ranks));
}

/// The report with all that is known now.
RunReport& Lead::report_now() {
  report_.steps = logged_;
  report_.bits = bits_;
  return report_;
}

/// Writes the report for those who watch the run. Also in the midst of a plan, where ranks wait no
/// longer than it takes to write numbers that are here.
void Lead::write_report(bool last) {
  follow_folder();
  try {
    last ? report_now().write_end(log_) : report_now().write(log_);
    lacks_report_ = false;
  } catch (const Error& error) {  // what was trained is not lost for a page
    if (!std::exchange(lacks_report_, true) || last) log_.warn(error.what());
  }
  reported_ = std::chrono::steady_clock::now();
}

}  // namespace plangrad::parallel
