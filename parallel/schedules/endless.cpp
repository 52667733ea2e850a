// Bars are found in a schedule's own plan of a few steps, so a schedule writes nothing for them:
// rows are regular from some step on, because a schedule is.
// Not here: what bars mean (plan/plan.h), and the proof (verifier/repeat.cpp). Chapter 07.
#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {
namespace {

/// The regular part of a row: for i in [first, last), row[i + length] is row[i] with later numbers.
struct Regular {
  int first = 0, last = 0, length = 0;
};

/// Looks around the backward in the middle of the row. nullopt: nothing repeats
std::optional<Regular> find_regular(const Plan& plan, const Row& row) {
  if (row.empty()) return Regular{};
  auto repeats = [&](int i, int length) { return row[i + length] == shifted(plan, row[i], 1); };
  std::vector<int> backwards;
  const int size = static_cast<int>(row.size());
  for (int i = 0; i < size; ++i)
    if (goes_back(row[i])) backwards.push_back(i);
  if (backwards.empty()) return std::nullopt;
  const int middle = backwards[(backwards.size() - 1) / 2];
  const auto again = std::find(row.begin() + middle, row.end(), shifted(plan, row[middle], 1));
  const int length = static_cast<int>(again - row.begin()) - middle;
  if (again == row.end() || length == 0) return std::nullopt;
  Regular found{middle, middle, length};
  while (found.first > 0 && repeats(found.first - 1, length)) --found.first;
  while (found.last + length < size && repeats(found.last, length)) ++found.last;
  return found;
}

/// Per rank and cell: the receives, as (wire, number), that bring what the cell uses.
using Used = std::vector<std::vector<std::vector<Pairing::End>>>;

Used find_used(const Plan& plan, const Pairing& pairing) {
  const std::vector<int> tied = tied_versions(plan);
  Used used;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Row& row = plan.rows[rank];
    auto& cells = used.emplace_back(row.size());
    std::map<Name, Pairing::End> brought;
    std::map<int, std::vector<Pairing::End>> sums;  // by stage: partial ones, which a fold takes
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Instruction& x = row[i];
      for (const Name& name : needs(plan, tied, x))
        if (auto found = brought.find(name); found != brought.end())
          cells[i].push_back(found->second);
      if (x.op == Op::fold) cells[i] = sums[x.stage];
      if (!receives(x)) continue;
      brought[value_of(x)] = pairing.ends[rank][i];
      if (x.what == Value::gradient_sum) sums[x.stage].push_back(pairing.ends[rank][i]);
    }
  }
  return used;
}

/// Moves the cut of each row on, until all rows can stand there together: what a row has used was
/// sent before, what was sent is awaited, and a group has met everywhere or nowhere.
void close_cut(const Plan& plan, std::vector<int>& cut) {
  const Pairing pairing = pair_up(plan);
  const Used used = find_used(plan, pairing);
  std::vector<int> seen(plan.ranks(), 0);
  auto reach = [&](int rank, int cell) { cut[rank] = std::max(cut[rank], cell + 1); };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < plan.ranks(); ++rank)
      for (; seen[rank] < cut[rank]; ++seen[rank], moved = true) {
        const int cell = seen[rank];
        for (const Pairing::End& end : used[rank][cell])
          reach(pairing.wires[end.wire].from, pairing.wires[end.wire].sends[end.number]);
        const Pairing::End& end = pairing.ends[rank][cell];
        if (sends(plan.rows[rank][cell]))
          reach(pairing.wires[end.wire].to, pairing.wires[end.wire].recvs[end.number]);
        if (end.meeting < 0) continue;
        const Meeting& meeting = pairing.meetings[end.meeting];
        for (std::size_t i = 0; i < meeting.cells.size(); ++i)
          reach(plan.groups[meeting.group][i], meeting.cells[i]);
      }
  }
}

/// Makes a plan endless whose rows have `bodies` bodies from the cut on.
Plan with_bars(const Plan& plan, const std::vector<Regular>& rows, const std::vector<int>& cut,
               int bodies) {
  Plan out = plan;
  out.steps -= (bodies - 1) * plan.period;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Row& row = plan.rows[rank];
    const int second = cut[rank] + rows[rank].length;
    Row& shorter = out.rows[rank];
    shorter.assign(row.begin(), row.begin() + second);
    for (auto x = row.begin() + cut[rank] + bodies * rows[rank].length; x < row.end(); ++x)
      shorter.push_back(shifted(plan, *x, 1 - bodies));
    out.bars.push_back({cut[rank], second});
  }
  return out;
}

/// Finds bars in a plan, for a body of `period` steps.
std::optional<Plan> find_bars(Plan plan, int period) {
  plan.period = period;
  std::vector<Regular> rows;
  std::vector<int> cut;
  for (const Row& row : plan.rows) {
    const std::optional<Regular> found = find_regular(plan, row);
    if (!found) return std::nullopt;
    rows.push_back(*found);
    cut.push_back(found->first);
  }
  close_cut(plan, cut);
  // State that the beginning leaves behind is gone one body later, or two.
  for (;;) {
    int bodies = plan.steps;
    for (int rank = 0; rank < plan.ranks(); ++rank)
      if (const auto [first, last, length] = rows[rank]; length > 0)
        bodies = std::min(bodies, (last + length - cut[rank]) / length);
    if (bodies < 2) return std::nullopt;
    Plan endless = with_bars(plan, rows, cut, bodies);
    try {
      return verify(std::move(endless)).plan();
    } catch (const PlanError& error) {
      if (error.rule != "repeat") return std::nullopt;
    }
    for (int rank = 0; rank < plan.ranks(); ++rank) cut[rank] += rows[rank].length;
  }
}

}  // namespace

std::optional<Plan> make_endless(const std::string& schedule, Layout layout) {
  if (find_schedule(schedule).updates_per_microbatch)  // its plans count updates as steps
    layout.first *= std::exchange(layout.microbatches, 1);
  return make_endless([&](int steps) {
    layout.steps = steps;
    return make_plan(schedule, layout);
  });
}

std::optional<Plan> make_endless(const std::function<Plan(int steps)>& plan_of) {
  constexpr int longest_period = 12;
  const Plan shortest = plan_of(1);
  if (shortest.in_flight > 0) return std::nullopt;  // its order depends on timing
  const int most_steps = 2 * shortest.stages + 2 * longest_period;
  for (int steps = 2; steps <= most_steps && steps * steps * shortest.passes() <= 1 << 20; ++steps)
    for (int period = 1; period <= std::min(longest_period, steps / 2); ++period) {
      const std::optional<Plan> found = find_bars(plan_of(steps), period);
      if (!found) continue;
      // An end can look regular by chance.
      auto is_schedules_own = [&](int bodies) {
        if (found->steps + (bodies - 1) * period == 0) return true;
        const Plan longer = unrolled(*found, bodies);
        return longer == plan_of(longer.steps);
      };
      if (std::ranges::all_of(std::array{0, 1, 2, 3, 5}, is_schedules_own)) return found;
    }
  return std::nullopt;
}

}  // namespace plangrad::parallel
