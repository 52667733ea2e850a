// Counts per time step, and the time step itself.
// Not here: what is counted (activations_alive.cpp, sendings.cpp).
// Chapter 08.
#include "parallel/simulation/time_steps.h"

#include <algorithm>
#include <map>

#include "autograd/error.h"

namespace paragrad::parallel {
namespace {

/// Whether it is a stage's value; of a collective's members, the first one speaks for all.
bool counts(const Sending& sending, const Plan& plan) {
  const Instruction& x = sending.instruction;
  if (x.what == Value::turn || x.what == Value::norm) return false;
  return sends(x) || plan.groups[x.peer].front() == sending.rank;
}

}  // namespace

double time_step(const Timeline& timeline) {
  double seconds = 0;
  int count = 0, stages = 0;
  for (const Record& record : timeline.records) {
    if (!uses_weights(record.instruction)) continue;
    seconds += record.end - record.start;
    count += record.instruction.what != Value::input_part;
    stages = std::max(stages, record.instruction.stage + 1);
  }
  if (count == 0) return 0;
  return seconds / count * (timeline.ranks == 1 ? stages : 1);
}

std::vector<double> update_starts(const Plan& plan, const Timeline& timeline) {
  std::map<int, double> starts;  // by microbatch
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    if (!begins_pass(x) || x.stage != 0) continue;
    auto [at, added] = starts.try_emplace(x.micro, record.start);
    at->second = std::min(at->second, record.start);
  }
  std::vector<double> result;
  for (int step = 0; step < plan.steps; ++step)
    if (auto found = starts.find(plan.first_micro() + step * plan.per_step); found != starts.end())
      result.push_back(found->second);
  return result;
}

namespace {

/// Fills in the time steps of a timeline.
class Counting {
 public:
  Counting(const Plan& plan, const Timeline& timeline, double length)
      : plan_(plan), timeline_(timeline), count_(1) {
    result_.length = length;
    count_ = at(timeline.makespan()) + 1;
  }

  TimeSteps result() {
    count_alive();
    count_sendings();
    count_computations();
    find_middle();
    return result_;
  }

 private:
  /// The time step of a moment.
  int at(double seconds) const { return static_cast<int>(seconds / result_.length + 1e-6); }
  /// The last time step that begins before it.
  int before(double seconds) const { return static_cast<int>(seconds / result_.length - 1e-6); }

  void count_alive() {
    result_.alive.resize(count_);
    const std::vector<Level> levels = activations_alive(timeline_);
    for (std::size_t i = 0; i + 1 < levels.size(); ++i)
      for (int t = at(levels[i].seconds); t <= before(levels[i + 1].seconds); ++t)
        result_.alive[t] = std::max(result_.alive[t], levels[i].count);
  }

  void count_sendings() {
    result_.sums.resize(count_);
    result_.values.resize(count_);
    result_.bytes.resize(count_);
    for (const Sending& sending : sendings(plan_, timeline_)) {
      const int t = at(sending.seconds);
      result_.bytes[t] += sending.bytes;
      if (!counts(sending, plan_)) continue;
      ++result_.values[t];
      result_.sums[t] += sending.instruction.what == Value::gradient_sum;
    }
  }

  void count_computations() {
    result_.computations.assign(count_, std::vector<int>(plan_.stages, 0));
    for (const Record& record : timeline_.records)
      if (uses_weights(record.instruction))
        ++result_.computations[at(record.start)].at(record.instruction.stage);
  }

  void find_middle() {
    const std::vector<double> starts = update_starts(plan_, timeline_);
    result_.last = count_ - 1;
    if (starts.size() < 2) return;
    const std::size_t middle = std::min(starts.size() / 2, starts.size() - 2);
    result_.first = at(starts[middle]);
    result_.last = std::max(result_.first + 1, at(starts[middle + 1]));
  }

  const Plan& plan_;
  const Timeline& timeline_;
  int count_;
  TimeSteps result_;
};

}  // namespace

TimeSteps time_steps(const Plan& plan, const Timeline& timeline) {
  const double length = time_step(timeline);
  PG_CHECK(length > 0, "time steps: no forward or backward takes time");
  return Counting(plan, timeline, length).result();
}

}  // namespace paragrad::parallel
