// Versions and sums are counted on by the period, microbatches by those that it makes steps of.
// Chapter 07.
#include <limits>
#include <tuple>

#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

Part part_of(const Plan& plan, int rank, int cell) {
  if (!plan.is_endless()) return Part::tail;
  const Bars& bars = plan.bars[rank];
  return cell < bars.first ? Part::head : cell < bars.second ? Part::body : Part::tail;
}

std::pair<int, int> cells_of(const Plan& plan, int rank, Part part) {
  const int end = static_cast<int>(plan.rows[rank].size());
  if (!plan.is_endless()) return {part == Part::tail ? 0 : end, end};
  const Bars& bars = plan.bars[rank];
  if (part == Part::head) return {0, bars.first};
  return part == Part::body ? std::pair{bars.first, bars.second} : std::pair{bars.second, end};
}

Instruction shifted(const Plan& plan, Instruction x, int repetitions) {
  if (x.version >= 0) x.version += repetitions * plan.period;
  if (x.micro >= 0) x.micro += repetitions * plan.period * plan.per_step;
  return x;
}

Name shifted(const Plan& plan, Name name, int repetitions) {
  const bool by_version =
      name.what == Value::weights || name.what == Value::open_sum || name.what == Value::norm;
  name.number += repetitions * plan.period * (by_version ? 1 : plan.per_step);
  return name;
}

int bodies_for(const Plan& plan, int steps) {
  constexpr std::int64_t longest = 1 << 30;  // cells of a row, counted over the run: an int
  std::int64_t bodies = (steps - plan.steps) / plan.period + 1;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const std::int64_t body = plan.bars[rank].second - plan.bars[rank].first;
    const auto row = static_cast<std::int64_t>(plan.rows[rank].size());
    bodies = std::min(bodies, (longest - row) / std::max<std::int64_t>(body, 1));
  }
  return static_cast<int>(bodies);
}

/// An operation on a stage, for a microbatch of a body.
using InBody = std::tuple<Op, int, int>;
static InBody in_body(const Plan& plan, const Instruction& x) {
  return {x.op, x.stage, x.micro % (plan.period * plan.per_step)};
}

/// How much older than the newest version the body reads: the same in each repetition.
static std::map<InBody, int> delays_of(const Plan& plan) {
  std::map<InBody, int> delays;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (int cell = plan.bars[rank].first; cell < plan.bars[rank].second; ++cell)
      if (const Instruction& x = plan.rows[rank][cell]; uses_weights(x))
        delays[in_body(plan, x)] = plan.made_by(x.micro) - x.version;
  return delays;
}

Plan later_by(Plan plan, int steps) {
  PG_CHECK(plan.first == 0 && plan.home.empty(),
           "a run can repeat an endless plan that begins with ",
           "the run and whose weights stay where they are; make it by plan show --endless without ",
           "--first, and not with --setting zero");
  const std::map<InBody, int> delays = delays_of(plan);
  for_each_cell(plan, [&](int rank, int cell, Instruction& x) {
    int version = x.version;
    if (uses_weights(x) && plan.drift == 0 && part_of(plan, rank, cell) == Part::head) {
      version = plan.made_by(x.micro) - delays.at(in_body(plan, x));  // below 0: none is so old
      PG_CHECK(x.version == std::max(version, 0), "rank ", rank, ", ", print(x),
               ": the body would ", "read version ", version,
               " here; a plan whose head differs from its body can't ",
               "begin anew after a validation or a checkpoint");
    }
    if (x.micro >= 0) x.micro += steps * plan.per_step;
    if (x.version >= 0) x.version = std::max(version + steps, 0);
  });
  plan.first += steps;
  return plan;
}

Plan unrolled(const Plan& plan, int bodies) {
  PG_CHECK(plan.is_endless(), "a plan without a period has one length");
  Plan out = plan;
  out.period = 0;
  out.bars.clear();
  out.steps += (bodies - 1) * plan.period;
  PG_CHECK(bodies >= 0 && out.steps > 0, "an endless plan of ", counted(plan.steps, "step"),
           " and period ", plan.period, " has no length of ", bodies, " bodies");
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Row& row = plan.rows[rank];
    const auto first = row.begin() + plan.bars[rank].first;
    const auto second = row.begin() + plan.bars[rank].second;
    Row& longer = out.rows[rank];
    longer.assign(row.begin(), first);
    for (int body = 0; body < bodies; ++body)
      for (auto x = first; x != second; ++x) longer.push_back(shifted(plan, *x, body));
    for (auto x = second; x != row.end(); ++x) longer.push_back(shifted(plan, *x, bodies - 1));
  }
  return out;
}

// ---- the look ahead of lifetimes ----

/// The oldest version of a stage that the row reads, as it is written; beyond all if it reads none.
/// A read of one that did not exist before the plan is an error, which must not take long to find.
int Lifetimes::oldest_read(int stage) const {
  int oldest = std::numeric_limits<int>::max();
  for (const Readers& readers : readers_)
    if (auto found = readers.lower_bound({stage, 0});
        found != readers.end() && found->first.first == stage)
      oldest = std::min(oldest, found->first.second);
  return std::max(oldest, plan_.first + 1 - plan_.kept(stage) - plan_.period);
}

/// After i more bodies a version is older by i periods, from the view of the cells as written.
bool Lifetimes::needed_at_second_bar(int stage, int version) const {
  for (int seen = version; seen >= oldest_read(stage); seen -= plan_.period)
    if (readers_in(Part::tail).contains({stage, seen}) ||
        readers_in(Part::body).contains({stage, seen - plan_.period}))
      return true;
  return version >= oldest_kept(stage);
}

/// Ends what was kept for another way on than the one taken, at the first cell behind a bar.
void Lifetimes::end_at_bar(Part part, int cell) {
  const Part before = part == Part::body ? Part::head : Part::body;
  std::set<int> stages;
  for (const Readers& readers : readers_)
    for (const auto& [key, index] : readers) stages.insert(key.first);
  for (int stage : stages)
    for (int version = std::max(0, std::min(oldest_read(stage), oldest_kept(stage)) - plan_.period);
         version <= plan_.first + plan_.steps; ++version)
      if (needed_behind(before, stage, version) && !needed_behind(part, stage, version) &&
          !readers_in(part).contains({stage, version}))
        ending_[cell].emplace_back(stage, version);
}

}  // namespace plangrad::parallel
