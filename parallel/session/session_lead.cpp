// Rank 0's part of a session: what is done when.
// Not here: what is written and shown (session_log.cpp).
// Chapter 05.
#include "parallel/session/session_lead.h"

#include <algorithm>

#include "parallel/plan/cell_order.h"
#include "parallel/session/agreement.h"
#include "parallel/session/state_files.h"

namespace plangrad::parallel {

using nlohmann::json;

bool Lead::run() {
  log_.say(settings_.about);
  for (const std::string& line : settings_.news) {
    log_.say("elastic: " + line);
    log_.note(steps_, "elastic", line);
  }
  if (!lost_.empty()) log_.say(lost_);
  measure_memory();

  const int last = borders_.last();
  for (const auto& observer : observers_) observer->ready(*this);
  while (steps_ < last && !is_interrupted()) {
    int before = steps_;
    const std::vector<RunResult> results = train_next_plan();
    const PlanEnd end{before, steps_, results};
    for (const auto& observer : observers_) observer->plan_ended(*this, end);
    if ((borders_.saves(before, steps_) || is_save_due()) && steps_ < last) {
      save();
      measure_memory();
      AtWork reporting(engine_.transport(), Work::reporting);
      write_report();
    }
    go_on_saving();
  }
  const bool trained = steps_ > first_;
  if (trained) save(/*last*/ true);  // also if the run is interrupted
  end();
  for (const auto& observer : observers_) observer->ended(*this);
  if (trained) {
    measure_memory();
    if (settings_.profile) tell_profile();
    AtWork reporting(engine_.transport(), Work::reporting);
    write_report(/*last*/ true);
  }
  order(End());
  return report_.state == RunState::finished;
}

void Lead::end() {
  if (steps_ < settings_.steps) {
    report_.state = is_interrupted() ? RunState::interrupted : RunState::stopped;
    if (settings_.is_segment && report_.state == RunState::stopped)
      return log_.say(text("a segment ends after ", steps_, " of ", settings_.steps, " steps"));
    return log_.say(text(name_of(report_.state), " after ", steps_, " of ", settings_.steps,
                         " steps; continue with --resume ", settings_.out.string()));
  }
  report_.state = RunState::finished;
}

void Lead::tell(const Told& told) {
  if (told.kind == Told::line) log_.say(told.what);
  if (told.kind == Told::metric)
    log_.validation(told.step, {told.value.at("validation_loss"),
                                told.value.contains("validation_accuracy")
                                    ? std::optional<double>(told.value.at("validation_accuracy"))
                                    : std::nullopt});
}

std::vector<std::string> ask_all(Lead& lead, const RunObserver& asker, std::string question) {
  return lead.ask(asker, std::move(question));
}

/// The first plans are recorded, and those after a change of memory; the report shows the last of
/// each.
bool Lead::is_recorded() const { return steps_ < record_until_; }

/// The update after which a long session records again, because its first updates warm up. A short
/// session does not (0): each recording drains the pipeline of an endless plan.
int Lead::middle() const {
  const int steps = borders_.last() - first_;
  return steps >= 50 * settings_.reported_steps ? first_ + steps / 2 : 0;
}

/// Records the next updates. With drift that would change numbers, as the pipeline drains after.
void Lead::record_again(const std::string& since) {
  if (report_.has_recorded() && report_.plan().drift > 0) return;
  since_ = text(since, " after update ", steps_);
  record_until_ = steps_ + settings_.reported_steps;
}

/// The updates of the next plan. Without drift, a plan's length does not change any number, as
/// versions are explicit.
int Lead::next_steps() {
  const Lengths& lengths = settings_.plans->lengths();
  if (lengths.every == 0 || settings_.one_update_a_plan) return lengths.least;
  int left = borders_.distance(steps_);
  // One to warm up and to measure, then those to record. An endless run drains at the end of each.
  int steps = steps_ == first_ && !endless_plan() ? 1 : settings_.reported_steps;
  // With drift that changes numbers. A resumed run drains where the whole one did, if it can.
  constexpr int most_recorded = 64;
  if (first_ > 0 && steps_ == first_ && left <= most_recorded && like()->plan().drift > 0)
    return lengths.fitted(left, left);
  if (middle_ > steps_ && may_drain_anywhere()) left = std::min(left, middle_ - steps_);
  if (!is_recorded())
    steps = endless_plan()
                ? left
                : steps_in_a_second(seconds_per_step_, report_.plan(), settings_.reported_steps);
  return lengths.fitted(std::min(steps, left), left);
}

std::vector<RunResult> Lead::train_next_plan() {
  // An interruption is noticed at a report, and by then as many bodies again may be granted.
  constexpr double between_reports = 0.15;
  const int before = steps_;
  const Plans::Shared endless = endless_plan();
  Train train{next_steps(), is_recorded()};
  if (endless && !train.recorded && train.steps > endless->plan().steps)
    train.report_every =
        std::max(1, static_cast<int>(between_reports / seconds_per_step_ / endless->plan().period));
  if (train.report_every > 0)
    ahead_ = endless->plan().period * (train.report_every + endless->plan().stages + 2);
  const Plan plan =
      train.report_every > 0 ? endless->plan() : settings_.plans->get(before, train.steps)->plan();
  logged_ = before;
  heard_seconds_ = 0;
  clips_ = plan.clip;
  drifts_ = plan.drift > 0;
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
  ahead_ = 0;
  hear(results);
  if (settings_.pretended)
    report_.pretended.computations +=
        settings_.pretended->computations(plan) / plan.steps * (steps_ - before);
  if (plan.overlaps_updates()) note_drain(why_drained(before, train.recorded), plan.drift > 0);
  if (train.recorded) {
    const bool driven = plan.in_flight > 0;
    report_.record({since_,
                    driven ? plan_as_it_ran(plan, orders) : plan,
                    driven,
                    {plan.ranks(), merged(results).records},
                    std::move(memory),
                    endless});
  }
  if (borders_.chooses_bits(before, steps_)) {
    const bool is_first = bits_.empty();
    choose_bits(results);
    if (is_first) record_again("choice of bits");
  }
  if (middle_ > 0 && before < middle_ && middle_ <= steps_ && may_drain_anywhere())
    record_until_ = steps_ + settings_.reported_steps;
  if (!train.recorded || is_recorded()) return results;
  AtWork reporting(engine_.transport(), Work::reporting);  // what was recorded is worked out now
  write_report();
  return results;
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

/// Whether plans may end after any update. With drift that would change numbers, and hang on time.
bool Lead::may_drain_anywhere() const {
  const Lengths& lengths = settings_.plans->lengths();
  return lengths.least == 1 && lengths.every == 1 && !drifts_;
}

namespace {

/// Runs a rank's part of a session, and leaves what the rank holds if it fails.
bool rescued(SessionRank& rank, Rescue* rescue, const std::function<bool()>& part) {
  try {
    return part();
  } catch (const RankLost&) {
    throw;
  } catch (const WrongState&) {
    if (rescue) rescue->forbid("some weights are wrong");
    throw;
  } catch (...) {
    if (rescue) rescue->add_remains_of(rank);
    throw;
  }
}

}  // namespace

bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings) {
  if (transport.rank() == 0) {
    Lead lead(training, transport, device, data, settings);
    return rescued(lead, settings.rescue.get(), [&] { return lead.run(); });
  }
  SessionRank rank(training, transport, device, data, settings);
  return rescued(rank, settings.rescue.get(), [&] {
    rank.follow();
    return true;
  });
}

}  // namespace plangrad::parallel
