// Rank 0's part of a session: what is done when.
// Not here: saves (saving.cpp), and what is written and shown (parallel/observers/). Chapter 05.
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

const char* name_of(RunState state) {
  static constexpr const char* names[] = {"running", "stopped", "interrupted", "finished"};
  return names[static_cast<int>(state)];
}

bool Lead::run() {
  for (const auto& observer : observers_) observer->ready(*this);
  if (!lost_.empty()) say(lost_);
  while (steps_ < borders_.last() && !is_interrupted()) {
    train_next_plan();
    go_on_saving();
  }
  if (steps_ > first_) save(/*last*/ true);  // also if the run is interrupted
  const RunState ended_early = is_interrupted() ? RunState::interrupted : RunState::stopped;
  state_ = steps_ == settings_.steps ? RunState::finished : ended_early;
  for (const auto& observer : observers_) observer->ended(*this);
  order(End());
  return state_ == RunState::finished;
}

void Lead::tell(const Told& told) {
  for (const auto& observer : observers_) observer->told(*this, told);
}

std::vector<std::string> ask_all(Lead& lead, const RunObserver& asker, std::string question) {
  PG_CHECK(!lead.runs_, "observer \"", asker.name(), "\" asks ranks that are in their rows");
  return lead.order(Ask{asker.name(), std::move(question)});
}

/// The update after which a long session records again, because its first updates warm up. A short
/// session does not (0): each recording drains the pipeline of an endless plan.
int Lead::middle() const {
  const int steps = borders_.last() - first_;
  return steps >= 50 * settings_.reported_steps ? first_ + steps / 2 : 0;
}

void Lead::record_again(const std::string& since) {
  if (has_recorded_ && drifts_) return;
  since_ = text(since, " after update ", steps_);
  record_until_ = steps_ + settings_.reported_steps;
}

/// The updates of the next plan. Without drift its length changes no number: versions are explicit.
int Lead::next_steps() {
  const Lengths& lengths = settings_.plans->lengths();
  if (lengths.every == 0) return lengths.least;
  int left = borders_.distance(steps_);
  // One to warm up and to measure, then those to record. An endless run drains at the end of each.
  int steps = steps_ == first_ && !endless_plan() ? 1 : settings_.reported_steps;
  // With drift that changes numbers. A resumed run drains where the whole one did, if it can.
  constexpr int most_recorded = 64;
  if (first_ > 0 && steps_ == first_ && left <= most_recorded && like()->plan().drift > 0)
    return lengths.fitted(left, left);
  if (middle_ > steps_ && may_drain_anywhere()) left = std::min(left, middle_ - steps_);
  if (!records())
    steps = endless_plan()
                ? left
                : steps_in_a_second(seconds_per_step_, overlaps_, settings_.reported_steps);
  return lengths.fitted(std::min(steps, left), left);
}

void Lead::train_next_plan() {
  // An interruption is noticed at a report, and by then as many bodies again may be granted.
  constexpr double between_reports = 0.15;
  const int before = steps_;
  const Plans::Shared endless = endless_plan();
  Train train{next_steps(), records()};
  if (endless && !train.recorded && train.steps > endless->plan().steps)
    train.report_every =
        std::max(1, static_cast<int>(between_reports / seconds_per_step_ / endless->plan().period));
  if (train.report_every > 0)
    ahead_ = endless->plan().period * (train.report_every + endless->plan().stages + 2);
  const Plan plan =
      train.report_every > 0 ? endless->plan() : settings_.plans->get(before, train.steps)->plan();
  heard_ = before;
  heard_seconds_ = 0;
  clips_ = plan.clip;
  drifts_ = plan.drift > 0;
  overlaps_ = plan.overlaps_updates();
  per_step_ = plan.per_step;
  std::vector<RunResult> results;
  const std::optional<RecordedUpdates> recorded = run_plan(train, plan, endless, results);
  PlanEnd end{before, steps_, plan, results};
  if (overlaps_) {
    end.drained = why_drained(before, train.recorded);
    tell_of_drain(end.drained, endless != nullptr);
  }
  if (recorded) end.recorded = &*recorded;
  end.saves = (borders_.saves(before, steps_) || is_save_due()) && steps_ < borders_.last();
  if (middle_ > 0 && before < middle_ && middle_ <= steps_ && may_drain_anywhere())
    record_until_ = steps_ + settings_.reported_steps;
  for (const auto& observer : observers_) observer->plan_ended(*this, end);
  if (end.saves) save();
}

/// Has all ranks run the plan, and hears what they found. Returns what they recorded.
std::optional<RecordedUpdates> Lead::run_plan(const Train& train, const Plan& plan,
                                              const Plans::Shared& endless,
                                              std::vector<RunResult>& results) {
  std::vector<std::vector<int>> orders;
  std::vector<MemorySample> memory;
  runs_ = true;
  for (Train::Answer& answer : order(train)) {
    const int rank = static_cast<int>(results.size());
    for (const MemoryMeter::Event& event : answer.memory)
      memory.push_back({rank, event.seconds, name_of(event.category), event.live});
    orders.push_back(answer.result.order);
    results.push_back(std::move(answer.result));
  }
  ahead_ = 0;
  hear(results);
  runs_ = false;
  if (!train.recorded) return std::nullopt;
  has_recorded_ = true;
  return RecordedUpdates{since_,
                         plan.in_flight > 0 ? plan_as_it_ran(plan, orders) : plan,
                         {plan.ranks(), merged(results).records},
                         std::move(memory),
                         endless};
}

/// Why the pipeline drained after the updates from `before` on.
const char* Lead::why_drained(int before, bool recorded) {
  if (is_interrupted()) return "interruption";
  if (const char* why = borders_.why(before, steps_)) return why;
  if (is_save_due()) return "checkpoint";
  if (recorded) return "recording";
  return endless_plan() ? "rest of a period" : "plan of fixed length";
}

/// With drift, the first forwards after a drain read newer weights than they would have read
/// without it, so the log says where that was.
void Lead::tell_of_drain(const char* why, bool endless) {
  if (endless) tell({Told::event, steps_, "drain", text("pipeline drained: ", why)});
  if (!drifts_) return;
  note("drained", why);
  if (steps_ < settings_.steps)
    say(text("step ", steps_, ": the pipeline drained (", why,
             "), which with drift changes the numbers of the updates that follow"));
}

/// Takes what the ranks have found out since the last call, and tells the observers.
bool Lead::hear(const std::vector<RunResult>& results) {
  for (const RunResult& result : results) hears_of_stop_ = hears_of_stop_ || result.interrupted;
  std::vector<RunResult> all = results;
  all.push_back(std::exchange(unheard_, {}));
  unheard_ = merged(all);
  const int last = std::ranges::min_element(results, {}, &RunResult::last_step)->last_step;
  const Heard heard{results, last > heard_ ? heard_until(last) : std::vector<HeardUpdate>()};
  for (const auto& observer : observers_) observer->heard(*this, heard);
  go_on_saving();
  if (!is_interrupted()) return !(is_save_due() && may_drain_anywhere());
  if (const int ahead = std::exchange(ahead_, 0))
    say(text("interrupted; ranks are ahead of each other, and end the same update together: at ",
             "most ", ahead, " more. Press Ctrl-C again to end at once, without saving"));
  return false;
}

/// The updates up to `last`, each with its mean loss, the gradient's norm, and the time from the
/// update before, taken when the last rank had made it; one that ends at once with the next, where
/// the pipeline drains, takes half of the time until then. Bytes are equal shares of those sent
/// since the last call, as without flushes ranks are in different updates at once.
std::vector<HeardUpdate> Lead::heard_until(int last) {
  RunResult& world = unheard_;
  const int count = last - heard_;
  std::int64_t bytes = 0;
  for (const auto& [kind, sent] : std::exchange(world.bytes_sent, {})) bytes += sent;
  seconds_per_step_ = std::max((world.stepped.at(last) - heard_seconds_) / count, 1e-9);
  std::vector<HeardUpdate> updates;
  for (int version = heard_ + 1; version <= last; ++version) {
    double& ended = world.stepped.at(version);
    if (overlaps_ && version < last &&
        world.stepped.at(version + 1) - ended < seconds_per_step_ / 8)
      ended = (heard_seconds_ + world.stepped.at(version + 1)) / 2;
    const double seconds = ended - std::exchange(heard_seconds_, ended);
    updates.push_back({.version = version,
                       .loss = loss_of(world, version, per_step_),
                       .gradient_norm = gradient_norm_of(world, version, per_step_, clips_),
                       .learning_rate = engine_.training().learning_rate.at(version - 1),
                       .seconds = std::max(seconds, 1e-9),
                       .bytes_sent = bytes / count});
  }
  heard_ = last;
  world.losses.erase(world.losses.begin(), world.losses.lower_bound(last * per_step_));
  for (auto* norms : {&world.norms, &world.stepped})
    norms->erase(norms->begin(), norms->upper_bound(last));
  world.squares.erase(world.squares.begin(), world.squares.upper_bound(last));
  world.records.clear();
  return updates;
}

/// Whether plans may end after any update. With drift that would change numbers, and hang on time.
bool Lead::may_drain_anywhere() const {
  const Lengths& lengths = settings_.plans->lengths();
  return lengths.least == 1 && lengths.every == 1 && !drifts_;
}

bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings) {
  std::unique_ptr<SessionRank> rank;
  if (transport.rank() == 0)
    rank = std::make_unique<Lead>(training, transport, device, data, settings);
  else
    rank = std::make_unique<SessionRank>(training, transport, device, data, settings);
  try {
    return rank->run();
  } catch (...) {
    rank->fail();
    throw;
  }
}

}  // namespace plangrad::parallel
