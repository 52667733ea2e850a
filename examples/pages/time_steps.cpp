// A message counts in the time step in which it begins. Chapters 06 and 08.
#include "examples/pages/time_steps.h"

#include "autograd/error.h"

namespace plangrad::examples {
namespace {

/// Whether a sending counts as a stage's value; in a collective, only the first member's does.
bool counts(const Sending& sending, const Plan& plan) {
  const Instruction& x = sending.instruction;
  if (x.what == Value::turn || x.what == Value::norm) return false;
  return sends(x) || plan.groups[x.peer].front() == sending.rank;
}

void count_alive(const Timeline& timeline, TimeSteps& steps) {
  const std::vector<Level> levels = activations_alive(timeline);
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    // The last time step that begins before the level ends.
    const int last = static_cast<int>(levels[i + 1].seconds / steps.length - 1e-6);
    for (int t = steps.at(levels[i].seconds); t <= last; ++t)
      steps.alive[t] = std::max(steps.alive[t], levels[i].count);
  }
}

void count_sendings(const Plan& plan, const Timeline& timeline, TimeSteps& steps) {
  for (const Sending& sending : sendings(plan, timeline)) {
    const int t = steps.at(sending.seconds);
    steps.bytes[t] += sending.bytes;
    if (!counts(sending, plan)) continue;
    ++steps.values[t];
    steps.sums[t] += sending.instruction.what == Value::gradient_sum;
  }
}

void find_middle(const Plan& plan, const Timeline& timeline, TimeSteps& steps) {
  const std::vector<double> starts = update_starts(plan, timeline);
  steps.last = static_cast<int>(steps.alive.size()) - 1;
  if (starts.size() < 2) return;
  const std::size_t middle = std::min(starts.size() / 2, starts.size() - 2);
  steps.first = steps.at(starts[middle]);
  steps.last = std::max(steps.first + 1, steps.at(starts[middle + 1]));
}

}  // namespace

std::string uncounted(const Plan& plan, const Timeline& timeline) {
  constexpr double most = 1 << 20, most_of_stages = 1 << 25;
  const double length = time_step(timeline), count = timeline.makespan() / length;
  if (!(length > 0)) return "no forward or backward takes time";
  if (count <= most && count * plan.stages <= most_of_stages) return "";
  return autograd::text("a plan of ", count, " time steps has too many to count them");
}

TimeSteps time_steps(const Plan& plan, const Timeline& timeline) {
  const std::string why_not = uncounted(plan, timeline);
  PG_CHECK(why_not.empty(), "time steps: ", why_not);
  TimeSteps steps;
  steps.length = time_step(timeline);
  const std::size_t count = steps.at(timeline.makespan()) + 1;
  steps.alive.resize(count);
  steps.sums.resize(count);
  steps.values.resize(count);
  steps.bytes.resize(count);
  steps.computations.assign(count, std::vector<int>(plan.stages, 0));
  count_alive(timeline, steps);
  count_sendings(plan, timeline, steps);
  for (const Record& record : timeline.records)
    if (uses_weights(record.instruction))
      ++steps.computations[steps.at(record.start)].at(record.instruction.stage);
  find_middle(plan, timeline, steps);
  return steps;
}

}  // namespace plangrad::examples
