// Every rank carries out orders: it makes the plan for itself, runs its row, and answers.
// Chapter 05.
#include "parallel/session/session_rank.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "parallel/codecs/codec.h"
#include "parallel/session/agreement.h"
#include "parallel/session/state_files.h"
#include "parallel/transports/rank_environment.h"

namespace plangrad::parallel {

namespace {

/// The engine's settings, with the hosts of hierarchical sums; checks that ranks agree on the run.
Engine::Settings engine_settings(const SessionSettings& settings, Transport& transport) {
  check_agreement(transport, settings);
  Engine::Settings result = settings.engine;
  if (result.reduction == AllReduce::hierarchical && result.hosts.empty())
    result.hosts = hosts_of_ranks(transport, result.timeout);
  return result;
}

/// The peak of each category, and of all together.
Peaks peaks_of(const MemoryMeter& meter) {
  Peaks peaks{{"total", meter.peak()}};
  for (int i = 0; i < category_count; ++i)
    peaks[name_of(static_cast<Category>(i))] = meter.peak(static_cast<Category>(i));
  return peaks;
}

/// Raises each of the peaks to those of another time.
void raise(Peaks& peaks, const Peaks& others) {
  for (const auto& [category, bytes] : others) peaks[category] = std::max(peaks[category], bytes);
}

}  // namespace

void check_hosts(const Plan& plan, const std::vector<int>& hosts) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      if (!meets(x) || x.what != Value::gradient_sum) continue;
      const std::vector<int>& group = plan.groups[x.peer];
      std::set<int> own;
      for (int rank : group) own.insert(hosts.at(rank));
      if (own.size() > 1 && own.size() < group.size()) return;
    }
  throw Error(
      "--reduction hierarchical: no group that sums up gradients has two ranks on one host and "
      "others elsewhere, so it would do what scatter does; use --reduction scatter, or say with "
      "--ranks-per-host N which ranks share a host");
}

SessionRank::SessionRank(const Training& training, Transport& transport, const DevicePtr& device,
                         RunData& data, const SessionSettings& settings)
    : settings_(settings),
      engine_(training, transport, device, engine_settings(settings, transport)),
      data_(data) {
  begin();
  check_first_weights(engine_, steps_);
  claim_.emplace(transport, settings.out, settings.engine.timeout);
  run_id_ = common_run_id(transport, run_id_, settings.engine.timeout);
}

/// Makes the rank's part of the run, or reads it from a checkpoint.
void SessionRank::begin() {
  const SessionSettings& settings = settings_;
  AtWork preparing(engine_.transport(), Work::preparing);
  std::optional<Checkpoint> checkpoint;
  if (!settings.resume.empty()) {
    checkpoint.emplace(settings.resumed());
    first_ = steps_ = static_cast<int>(checkpoint->step());
    run_id_ = checkpoint->run_id();
  }
  const Plans::Shared shared = like();
  const VerifiedPlan& plan = *shared;
  // A plan of one update can keep rules that longer ones break: they are verified before any runs.
  if (settings.plans->fixed_steps() == 0 && !settings.plans->endless(steps_))
    settings.plans->get(
        steps_, std::clamp(settings.steps - steps_, 1, std::max(1, settings.reported_steps)));
  if (settings.engine.reduction == AllReduce::hierarchical)
    check_hosts(plan.plan(), engine_.settings().hosts);
  if (checkpoint)
    for (const auto& observer : observers_) observer->resume(*checkpoint, *this);
  engine_.prepare(plan.plan());
  if (plan.plan().codec.kind().chooses_bits) bits_every_ = plan.plan().codec.period;
  begun_ = true;
  if (!checkpoint) return;
  read_state(*checkpoint, engine_);
  if (bits_every_ > 0) bits_ = of_run(*checkpoint, "bits", Bits());
  engine_.set_bits(bits_);
  read_codec_state(*checkpoint, engine_, plan.plan());
  lost_ = lost_residual(*checkpoint, plan.plan(), engine_.training());
  if (cuts_peaks_) begin_pruned();
}

void SessionRank::follow() {
  for (Order what; !std::holds_alternative<End>(what);) {
    what = unpack<Order>(broadcast_bytes(engine_.transport(), "", settings_.engine.timeout));
    std::visit([this](const auto& each) { answer(each); }, what);
  }
}

Train::Answer SessionRank::carry_out(const Train& what) {
  const bool endless = what.report_every > 0;
  const Plans::Shared plan = endless ? endless_plan() : settings_.plans->get(steps_, what.steps);
  Course course{.records = what.recorded, .report_every = what.report_every, .left = &left_};
  course.interrupted = settings_.interrupted_here;
  if (endless) course.bodies = bodies_for(plan->plan(), what.steps);
  course.heard = [this](const std::vector<RunResult>& results) { return hear(results); };
  MemoryMeter& meter = engine_.device()->meter();
  std::vector<MemoryMeter::Event> memory;
  for (int i = 0; i < category_count; ++i)
    memory.push_back({0, static_cast<Category>(i), meter.live(static_cast<Category>(i))});
  const auto start = std::chrono::steady_clock::now();
  if (what.recorded) meter.start_timeline();
  RunResult result = engine_.run(*plan, data_.training(), course);
  steps_ = result.last_step;
  result.peak = meter.peak();
  if (!peaks_.empty()) result.peak = std::max(result.peak, peaks_.at("total"));
  if (!what.recorded) {
    result.order.clear();
    return {result, {}};
  }
  const double waited = std::chrono::duration<double>(result.begun - start).count();
  for (MemoryMeter::Event change : meter.stop_timeline()) {
    change.seconds = std::max(change.seconds - waited, 0.0);  // on the clock of the records
    memory.push_back(change);
  }
  return {result, outstanding(memory)};
}

void SessionRank::begin_validation() {
  raise(peaks_, peaks_of(engine_.device()->meter()));
  engine_.device()->meter().reset_peaks();
}

void SessionRank::end_validation() {
  raise(peaks_validating_, peaks_of(engine_.device()->meter()));
  engine_.device()->meter().reset_peaks();
}

Ask::Answer SessionRank::carry_out(const Ask& what) {
  for (const auto& observer : observers_)
    if (observer->name() == what.observer) return observer->answer(*this, what.question);
  throw Error(text("this rank has no observer \"", what.observer,
                   "\"; start all ranks with the same flags"));
}

void SessionRank::form_changed() {
  if (!begun_) {
    cuts_peaks_ = true;
    return;
  }
  engine_.set_bits(bits_);  // for the codecs, which are new
  begin_pruned();
}

Save::Answer SessionRank::carry_out(const Save& what) {
  const Plan plan = plan_at_work();
  const WriteFile take = writer_.taker();
  write_state(engine_, plan, take);
  write_codec_state(engine_, plan, take);
  nlohmann::json run;
  std::string before, failure;
  Saving saving{*this, plan, take, run, before, failure};
  for (const auto& observer : observers_) observer->save(saving);
  return {writer_.start(what.out + "/checkpoint", {steps_, run_id_}), codec_numbers(engine_).dump(),
          weights_checksums(engine_)};
}

FinishFiles::Answer SessionRank::carry_out(const FinishFiles&) {
  AtWork saving(engine_.transport(), Work::saving);
  return writer_.finish();
}

SetBits::Answer SessionRank::carry_out(const SetBits& what) {
  bits_ = what.bits;
  engine_.set_bits(bits_);
  return {};
}

MeasureMemory::Answer SessionRank::carry_out(const MeasureMemory&) {
  raise(peaks_, peaks_of(engine_.device()->meter()));
  MeasureMemory::Answer answer{peaks_, {}, peaks_validating_};
  if (peaks_before_.empty()) return answer;
  answer.pruned = peaks_;
  raise(answer.run, peaks_before_);
  return answer;
}

/// Measures peaks anew, and keeps those so far.
void SessionRank::begin_pruned() {
  peaks_before_ = carry_out(MeasureMemory()).run;
  peaks_.clear();
  engine_.device()->meter().reset_peaks();
}

Plans::Shared SessionRank::endless_plan() {
  AtWork preparing(engine_.transport(), Work::preparing);
  return settings_.plans->endless(steps_);
}

/// The shortest plan from now on; making it takes a while.
Plan SessionRank::plan_at_work() {
  AtWork preparing(engine_.transport(), Work::preparing);
  return like()->plan();
}

// ---- how answers of ranks are merged, and a rank's memory events thinned out ----

RunResult merged(const std::vector<RunResult>& ranks) {
  RunResult world;
  for (RunResult rank : ranks) {
    world.losses.merge(rank.losses);
    world.accuracies.merge(rank.accuracies);
    world.norms.merge(rank.norms);
    for (const auto& [version, seconds] : rank.stepped)
      world.stepped[version] = std::max(world.stepped[version], seconds);
    for (const auto& [version, sums] : rank.squares) {
      auto& all = world.squares[version];
      all.resize(sums.size());
      std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
    }
    for (const auto& [kind, bytes] : rank.bytes_sent) world.bytes_sent[kind] += bytes;
    world.late += rank.late;
    world.records.insert(world.records.end(), rank.records.begin(), rank.records.end());
  }
  return world;
}

namespace {

/// The indices of the highest and the last event of each category in each thousandth of the time.
std::set<std::size_t> highest_or_last(const std::vector<MemoryMeter::Event>& events) {
  std::map<std::pair<Category, int>, std::pair<std::size_t, std::size_t>> parts;  // highest, last
  const double seconds = std::max(events.back().seconds, 1e-9);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto part = static_cast<int>(events[i].seconds / seconds * 1000);
    auto& [highest, last] = parts.try_emplace({events[i].category, part}, i, i).first->second;
    if (events[i].live > events[highest].live) highest = i;
    last = i;
  }
  std::set<std::size_t> result;
  for (const auto& [part, ends] : parts) result.insert({ends.first, ends.second});
  return result;
}

}  // namespace

std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events) {
  if (events.size() <= 1000 * category_count) return events;
  std::set<std::size_t> kept = highest_or_last(events);
  for (std::size_t i = 0; i < category_count; ++i) kept.insert(i);  // those at the beginning stay
  std::vector<MemoryMeter::Event> result;
  for (std::size_t i : kept) result.push_back(events[i]);
  return result;
}

}  // namespace plangrad::parallel
