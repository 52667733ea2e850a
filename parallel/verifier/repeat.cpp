// The rule repeat: why an endless plan is right at every length. Its head, body and tail are an
// ordinary plan, which all other rules check. If the body, in addition, ends with the state that it
// began with, each name counted on by the period, then another body can follow, and a tail can
// follow any body: rules speak of differences of names only. State is what a rank has (replay),
// what is under way between ranks, and which microbatches have passed which stages.
// Not here: that all ranks reach their bars (hang). Chapter 07.
#include <iterator>

#include "parallel/verifier/replay.h"

namespace plangrad::parallel {
namespace {

using Lines = std::set<std::string>;

/// The cells of a wire's end that stand before a bar: how many.
std::size_t count_before(const std::vector<int>& cells, int bar) {
  return std::ranges::lower_bound(cells, bar) - cells.begin();
}

/// The messages that are under way on a wire at the bars: sent and not received, or awaited.
std::vector<std::string> under_way(const Plan& plan, const Wire& wire, int bar) {
  auto place = [&](int rank) { return bar ? plan.bars[rank].second : plan.bars[rank].first; };
  const std::size_t sent = count_before(wire.sends, place(wire.from));
  const std::size_t posted = count_before(wire.recvs, place(wire.to));
  std::vector<std::string> names;
  for (std::size_t k = std::min(sent, posted); k < std::max(sent, posted); ++k)
    names.push_back(text(sent > posted ? "sent: " : "awaited: ",
                         print(shifted(plan, plan.rows[wire.from][wire.sends[k]], -bar))));
  return names;
}

/// A group meets in the same part of all its members' rows, so nothing of it is left at a bar.
void check_together(const Plan& plan, const Meeting& meeting) {
  const std::vector<int>& members = plan.groups[meeting.group];
  const Part part = part_of(plan, members[0], meeting.cells[0]);
  for (std::size_t i = 1; i < members.size(); ++i)
    if (part_of(plan, members[i], meeting.cells[i]) != part)
      refuse("together", {plan, members[i], meeting.cells[i]},
             "lies on another side of a bar than on rank ", members[0]);
}

/// The passes before the bars, as (stage, microbatch): of all cells that `is_passed` selects.
std::set<std::pair<int, int>> passed(const Plan& plan, int bar,
                                     bool (*is_passed)(const Instruction&)) {
  std::set<std::pair<int, int>> found;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const int end = bar ? plan.bars[rank].second : plan.bars[rank].first;
    for (int cell = 0; cell < end; ++cell)
      if (const Instruction& x = plan.rows[rank][cell]; is_passed(x))
        found.emplace(x.stage, x.micro);
  }
  return found;
}

/// All that has passed at the second bar is what had passed at the first, counted on, and the first
/// microbatches of the plan.
void check_passed(const Plan& plan, bool back) {
  const int micros = plan.period * plan.per_step;
  const auto is_passed = back ? goes_back : begins_pass;
  std::set<std::pair<int, int>> expected;
  for (auto [stage, micro] : passed(plan, 0, is_passed)) expected.emplace(stage, micro + micros);
  for (int stage = 0; stage < plan.stages; ++stage)
    for (int micro = 0; micro < micros; ++micro)
      expected.emplace(stage, plan.first_micro() + micro);
  const auto found = passed(plan, 1, is_passed);
  std::vector<std::pair<int, int>> wrong;
  std::ranges::set_symmetric_difference(expected, found, std::back_inserter(wrong));
  if (wrong.empty()) return;
  const auto [stage, micro] = wrong.front();
  throw PlanError("repeat", -1, -1,
                  text("repeat: once the body has run, microbatch ", micro, " has ",
                       found.contains({stage, micro}) ? "" : "not ", "passed ",
                       back ? "back through" : "through", " stage ", stage,
                       "; a body passes on as many microbatches as its period takes"));
}

/// The uses of the tied stage by one microbatch read one version, so while a bar lies between them
/// the version is part of the state. With drift, each use names its own.
void check_tied(const Plan& plan) {
  if (plan.tied.empty() || plan.drift > 0) return;
  const std::vector<int> versions = tied_versions(plan);
  const auto back = passed(plan, 0, adds_gradient);  // the last use of a microbatch
  const int micros = plan.period * plan.per_step;
  for (auto [stage, micro] : passed(plan, 0, begins_pass)) {
    auto is_done = [&, m = micro](int user) { return back.contains({user, m}); };
    if (stage != plan.tied.front() || std::ranges::all_of(plan.tied, is_done)) continue;
    const int at = micro - plan.first_micro();
    if (versions.at(at + micros) != versions.at(at) + plan.period)
      throw PlanError("repeat", -1, -1,
                      text("repeat: microbatch ", micro, " reads version ", versions.at(at),
                           " of the tied stage, and microbatch ", micro + micros,
                           ", a body later, version ", versions.at(at + micros)));
  }
}

void compare(const Plan& plan, int rank, const Lines& before, const Lines& after) {
  Lines lost, gained;
  auto into = [](Lines& lines) { return std::inserter(lines, lines.end()); };
  std::ranges::set_difference(before, after, into(lost));
  std::ranges::set_difference(after, before, into(gained));
  if (lost.empty() && gained.empty()) return;
  auto first = [](const Lines& lines) { return lines.empty() ? "nothing" : *lines.begin(); };
  refuse("repeat", {plan, rank, plan.bars[rank].second}, "the body does not end as it began. Only ",
         "before it there is: ", first(lost),
         ". Only after it, counted back by the period: ", first(gained));
}

}  // namespace

/// Notes the state if a bar stands before the cell. A norm that no stage waits for is forgotten.
void Replay::note_bars(int index) {
  if (!plan_.is_endless()) return;
  for (int cell : {plan_.bars[rank_].first, plan_.bars[rank_].second}) {
    if (cell != index) continue;
    const int back = static_cast<int>(at_bars_.size());
    std::set<std::string>& lines = at_bars_.emplace_back();
    versions_.add_state(back, lines);
    sums_.add_state(back, lines);
    for (const auto& [name, cell] : here_)
      if (const Name value = name_of(name);
          value.what != Value::norm || versions_.lacks(value.number))
        lines.insert(describe(shifted(plan_, value, -back)));
    const int earlier = back * plan_.period;
    for (const auto& [name, pass] : passes_) {
      const int half = pass.input_part_at;
      lines.insert(text(describe(shifted(plan_, name_of(name), -back)), " at version ",
                        pass.version - earlier, pass.kept ? "" : ", dropped",
                        half < 0 ? "" : text(", half back at ", half - earlier)));
    }
  }
}

void check_repeat(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows) {
  if (!plan.is_endless()) return;
  for (const Meeting& meeting : pairing.meetings) check_together(plan, meeting);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    compare(plan, rank, rows[rank].state_at_bar(0), rows[rank].state_at_bar(1));
  for (const Wire& wire : pairing.wires) {
    const auto before = under_way(plan, wire, 0), after = under_way(plan, wire, 1);
    if (before == after) continue;
    compare(plan, wire.from, {before.begin(), before.end()}, {after.begin(), after.end()});
    refuse("repeat", {plan, wire.from, plan.bars[wire.from].second},
           "the messages under way to rank ", wire.to, " have another order than before the body");
  }
  for (bool back : {false, true}) check_passed(plan, back);
  check_tied(plan);
}

}  // namespace plangrad::parallel
