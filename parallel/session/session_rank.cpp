// Every rank carries out orders: it makes the plan for itself, runs its row, and answers.
// Chapter 05.
#include "parallel/session/session_rank.h"

#include <fmt/format.h>

#include <random>

namespace plangrad::parallel {
namespace {

/// The engine's settings, with the hosts of sums by hosts; checks that ranks agree on the run.
Engine::Settings engine_settings(const SessionSettings& settings, Transport& transport) {
  PG_CHECK(settings.resume.empty() == !settings.resumed,
           "SessionScope::resume_from() opens what a ", "session continues from");
  check_agreement(transport, settings.run, settings.resumed.get(), settings.engine.timeout);
  Engine::Settings result = settings.engine;
  if (entry_of(result.reduction).by_hosts && result.hosts.empty())
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

/// Why the newest weights of some stage must not be saved; empty: all are finite.
std::string not_finite(Engine& engine) {
  for (auto& [stage, store] : engine.stores())
    if (!all_finite(store.versions().at(store.newest())))
      return text("some weights of stage ", stage, " are not finite; ", when_not_finite);
  return "";
}

/// Raises each of the peaks to those of another time.
void raise(Peaks& peaks, const Peaks& others) {
  for (const auto& [category, bytes] : others) peaks[category] = std::max(peaks[category], bytes);
}

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

void check_hosts(const Plan& plan, const std::vector<int>& hosts) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      if (!meets(x) || x.what != Value::gradient_sum) continue;
      const std::vector<int>& group = plan.groups[x.peer];
      std::set<int> own;
      for (int rank : group) own.insert(hosts.at(rank));
      if (own.size() > 1 && own.size() < group.size()) return;
    }
  throw SharedError(
      "--reduction hierarchical: no group that sums up gradients has two ranks on one host and "
      "others elsewhere, so it would do what scatter does; use --reduction scatter, or say with "
      "--ranks-per-host N which ranks share a host");
}

SessionRank::SessionRank(const Training& training, Transport& transport, const DevicePtr& device,
                         RunData& data, const SessionSettings& settings)
    : settings_(settings),
      engine_(training, transport, device, engine_settings(settings, transport)),
      observers_(settings.observers()),
      data_(data),
      peaks_(device->meter()) {
  begin();
  check_first_weights(engine_, steps_);
  if (settings.resumed) settings.resumed->close();  // all ranks have begun
  claim_ = claim_folder(transport, settings.out, settings.engine.timeout, settings.lock);
  std::random_device random;
  if (run_id_.empty()) run_id_ = fmt::format("{:08x}{:08x}", random(), random());
  run_id_ = broadcast_bytes(transport, run_id_, settings.engine.timeout);  // that of rank 0
}

/// Makes the rank's part of the run, or reads it from a checkpoint.
void SessionRank::begin() {
  AtWork preparing(engine_.transport(), Work::preparing);
  std::shared_ptr<const Checkpoint> checkpoint;
  if (settings_.resumed) {
    checkpoint = settings_.resumed->get();
    first_ = steps_ = static_cast<int>(checkpoint->step());
    run_id_ = checkpoint->run_id();
  }
  const Plans::Shared shared = like();
  const VerifiedPlan& plan = *shared;
  // A plan of one update can keep rules that longer ones break: they are verified before any runs.
  if (settings_.plans->fixed_steps() == 0 && !settings_.plans->endless(steps_))
    settings_.plans->get(
        steps_, std::clamp(settings_.steps - steps_, 1, std::max(1, settings_.reported_steps)));
  if (entry_of(settings_.engine.reduction).by_hosts)
    check_hosts(plan.plan(), engine_.settings().hosts);
  if (checkpoint)
    for (const auto& observer : observers_) observer->resume(*checkpoint, *this);
  engine_.prepare(plan.plan());
  const CodecSpec& codec = plan.plan().codec;
  const auto serves = [&](const auto& each) { return each->serves(codec.kind()); };
  PG_CHECK(!codec.kind().chooses_bits || std::ranges::any_of(observers_, serves), "codec ",
           print(codec), " needs an observer that serves it, and this run has none");
  begun_ = true;
  if (!checkpoint) return;
  read_state(*checkpoint, engine_);
  read_codec_state(*checkpoint, engine_, plan.plan());
  lost_ = lost_residual(*checkpoint, plan.plan(), engine_.training());
  if (!part_.empty()) peaks_.cut(part_);
}

bool SessionRank::run() {
  for (Order what; !std::holds_alternative<End>(what);) {
    what = unpack<Order>(broadcast_bytes(engine_.transport(), "", settings_.engine.timeout));
    std::visit([this](const auto& each) { answer(each); }, what);
  }
  return true;
}

Train::Answer SessionRank::carry_out(const Train& what) {
  for (const auto& observer : observers_) observer->trains(*this, true);
  Train::Answer answer = run_row(what);
  for (const auto& observer : observers_) observer->trains(*this, false);
  answer.result.interrupted = engine_.transport().rank() > 0 && settings_.interrupted_here();
  return answer;
}

Train::Answer SessionRank::run_row(const Train& what) {
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
  result.peak = peaks_.total();
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

Ask::Answer SessionRank::carry_out(const Ask& what) {
  for (const auto& observer : observers_)
    if (observer->name() == what.observer) return observer->answer(*this, what.question);
  throw Error(text("this rank has no observer \"", what.observer,
                   "\"; start all ranks with the same flags"));
}

Save::Answer SessionRank::carry_out(const Save&) {
  const Plan plan = plan_at_work();
  const WriteFile take = writer_.taker();
  write_state(engine_, plan, take);
  write_codec_state(engine_, plan, take);
  Save::Answer answer;
  nlohmann::json run = nlohmann::json::object();
  Saving saving{*this, plan, take, run, answer.on_disk_before, answer.failure};
  for (const auto& observer : observers_) observer->save(saving);
  answer.run = run.dump();
  answer.files = writer_.start(settings_.out / "checkpoint", {steps_, run_id_});
  answer.codec = codec_numbers(engine_).dump();
  answer.weights = weights_checksums(engine_);
  if (answer.failure.empty()) answer.failure = not_finite(engine_);
  return answer;
}

FinishFiles::Answer SessionRank::carry_out(const FinishFiles&) {
  AtWork saving(engine_.transport(), Work::saving);
  return writer_.finish();
}

std::string SessionRank::lacks(int updates) const {
  for (const auto& observer : observers_)
    if (std::string why = observer->lacks(updates); !why.empty()) return why;
  return "";
}

void SessionRank::fail() noexcept {
  for (const auto& observer : observers_) observer->failed(*this);
}

Plans::Shared SessionRank::endless_plan() {
  AtWork preparing(engine_.transport(), Work::preparing);
  return settings_.plans->endless(steps_);
}

Plan SessionRank::plan_at_work() {
  AtWork preparing(engine_.transport(), Work::preparing);
  return like()->plan();
}

// ---- peaks, and how a rank's memory events are thinned out ----

std::map<std::string, Peaks> PeakBook::found() {
  raise(now_, peaks_of(meter_));
  std::map<std::string, Peaks> found = apart_;
  found[part_] = found[""] = now_;
  raise(found[""], before_);
  return found;
}

std::int64_t PeakBook::total() const {
  return std::max(meter_.peak(), now_.empty() ? 0 : now_.at("total"));
}

void PeakBook::cut(const std::string& part) {
  before_ = found().at("");
  part_ = part;
  now_.clear();
  meter_.reset_peaks();
}

void PeakBook::apart(const std::string& part, const std::function<void()>& work) {
  raise(now_, peaks_of(meter_));
  meter_.reset_peaks();
  work();
  raise(apart_[part], peaks_of(meter_));
  meter_.reset_peaks();
}

std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events) {
  if (events.size() <= 1000 * category_count) return events;
  std::set<std::size_t> kept = highest_or_last(events);
  for (std::size_t i = 0; i < category_count; ++i) kept.insert(i);  // those at the beginning stay
  std::vector<MemoryMeter::Event> result;
  for (std::size_t i : kept) result.push_back(events[i]);
  return result;
}

}  // namespace plangrad::parallel
