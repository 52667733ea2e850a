// A row's facts are found once per plan, so that no cell looks them up. A rank that gives up names
// the message, the rank that it depends on, and where that rank was. Chapters 04, 05 and 08.
#include "parallel/engine/row_run.h"

#include "parallel/transports/launch.h"

namespace plangrad::parallel {

RowRun::RowRun(Engine& engine, const VerifiedPlan& verified, int number, int bodies)
    : engine(engine),
      plan(verified.plan()),
      rank(engine.transport().rank()),
      number(number),
      bodies(bodies),
      capacity(verified.facts().capacity),
      tied_versions(parallel::tied_versions(plan)),
      lifetimes(plan, rank, tied_versions),
      holders(parallel::holders(plan)) {
  for (const Instruction& x : plan.rows.at(rank)) {
    if (makes_version(x)) stepped.insert(x.stage);
    if (sends(x) && x.what == Value::gradient_sum && plan.ends_step(x.micro)) sent.insert(x.stage);
  }
}

RowRun::Written RowRun::written(int rank, int cell) const {
  if (!plan.is_endless()) return {cell, 0};
  const auto [first, second] = plan.bars[rank];
  const int length = second - first;
  if (cell < first) return {cell, 0};
  if (cell >= first + bodies * length) return {cell - (bodies - 1) * length, bodies - 1};
  return {first + (cell - first) % length, (cell - first) / length};
}

int RowRun::cells_of(int rank) const {
  const int written = static_cast<int>(plan.rows[rank].size());
  if (!plan.is_endless()) return written;
  return written + (bodies - 1) * (plan.bars[rank].second - plan.bars[rank].first);
}

Instruction RowRun::at(int rank, int cell) const {
  const auto [index, later] = written(rank, cell);
  return shifted(plan, plan.rows[rank][index], later);
}

std::optional<int> RowRun::bodies_before(int cell) const {
  if (!plan.is_endless()) return std::nullopt;
  const auto [first, second] = plan.bars[rank];
  const int begun = cell - first, length = second - first;
  if (length == 0 || begun < 0 || begun % length != 0 || begun / length > bodies)
    return std::nullopt;
  return begun / length;
}

std::string RowRun::mark(int cell) const {
  constexpr int around = 7;  // one more than is shown
  const int begin = std::max(cell - around, 0), end = std::min(cell + around + 1, cells_of(rank));
  Plan shown;
  shown.rows.resize(rank + 1);
  for (int i = begin; i < end; ++i) shown.rows[rank].push_back(at(i));
  return parallel::mark(shown, rank, cell - begin);
}

/// Names grow from repetition to repetition, so a written cell runs `x` in one of them at most.
std::vector<int> RowRun::cells_with(int rank, const Instruction& x) const {
  const Row& row = plan.rows[rank];
  std::vector<int> cells;
  for (int index = 0; index < static_cast<int>(row.size()); ++index) {
    int cell = index, later = 0;
    if (plan.is_endless()) {
      const int micros = plan.period * plan.per_step;
      later = x.version >= 0 ? (x.version - row[index].version) / plan.period
                             : (x.micro - row[index].micro) / micros;
      cell += later * (plan.bars[rank].second - plan.bars[rank].first);
    }
    if (cell < 0 || cell >= cells_of(rank)) continue;
    const Written there = written(rank, cell);
    if (there.index == index && there.later == later && at(rank, cell) == x) cells.push_back(cell);
  }
  std::ranges::sort(cells);
  return cells;
}

std::vector<Name> RowRun::needs(int cell) const {
  const auto [index, later] = written(rank, cell);
  std::vector<Name> names = parallel::needs(plan, tied_versions, plan.rows[rank][index]);
  for (Name& name : names) name = shifted(plan, name, later);
  return names;
}

std::vector<Made> RowRun::ending_at(int cell) const {
  const auto [index, later] = written(rank, cell);
  std::vector<Made> ending;
  for (auto [stage, version] : lifetimes.ending_at(index))
    ending.push_back({stage, version + later * plan.period});
  return ending;
}

bool RowRun::needed_after(const Made& weights, int cell) const {
  const auto [index, later] = written(rank, cell);
  return lifetimes.needed_after(weights.stage, weights.version - later * plan.period, index);
}

StageBuffers& RowRun::stage(int stage) {
  auto& stores = engine.stores();
  if (auto found = stores.find(stage); found != stores.end()) return found->second;
  return visiting.try_emplace(stage, engine.training(), engine.form(stage), engine.device())
      .first->second;
}

static Collective list_of(Joint what, const Summing& how, int member, int members) {
  switch (what) {
    case Joint::all_reduce: return all_reduce(how, member, members);
    case Joint::reduce_scatter: return reduce_scatter(how, member, members);
    case Joint::all_gather: break;
  }
  return all_gather(how, member, members);
}

std::shared_ptr<GroupRun> RowRun::in_group(int group, Joint what, const Tensor& x, AllReduce how,
                                           CollectiveRun::Encoding encoding) const {
  const std::vector<int>& ranks = plan.groups[group];
  if (how == AllReduce::by_transport)
    return std::make_shared<TransportRun>(what, x, ranks, group_channel(group));
  const auto member = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  const int members = static_cast<int>(ranks.size());
  const bool is_plain_sum = what == Joint::all_reduce && !encoding.codec;
  Summing summing{is_plain_sum ? fitted(how, x.bytes(), members) : how};
  if (const std::vector<int>& hosts = engine.settings().hosts; !hosts.empty())
    for (int each : ranks) summing.hosts.push_back(hosts.at(each));
  const Collective steps = list_of(what, summing, static_cast<int>(member), members);
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group),
                                         engine.transport().piece_bytes(), encoding);
}

void Waiting::reach(int cell) {
  cell_ = cell;
  tell(Work::none);
}

void Waiting::tell(Work work) const {
  transport_.publish({.cell = cell_, .plan = static_cast<std::int16_t>(run_.number), .work = work});
}

/// Whether one of the tickets is done before the deadline.
bool Waiting::wait_patiently(const std::vector<const Ticket*>& tickets) const {
  if (lane_.wait_for_any(tickets, 0)) return true;
  tell(Work::none);
  Deadline deadline(run_.engine.settings().timeout);
  while (deadline.left() > 0 && !lane_.failure()) {
    if (lane_.wait_for_any(tickets, deadline.longest_wait())) return true;
    deadline.restart_if_progress(transport_);
  }
  return lane_.wait_for_any(tickets, 0);
}

void Waiting::wait(const Issued& message) const {
  if (message.before) wait(*message.before);
  if (message.ticket) wait_for_any({message.ticket.get()}, message.cell);
}

void Waiting::wait_for_any(const std::vector<const Ticket*>& tickets, int cell) const {
  const auto start = Clock::now();
  if (wait_patiently(tickets)) return;
  Instruction awaited = run_.at(cell);
  const int peer = awaited_rank(cell);
  if (travels(awaited)) {  // as the other end writes it
    awaited.op = sends(awaited) ? Op::recv : Op::send;
    awaited.peer = run_.rank;
  }
  give_up(start, print(awaited), peer);
}

void Waiting::wait_for_word(const Ticket& ticket, const std::string& what, int peer) const {
  const auto start = Clock::now();
  if (!wait_patiently({&ticket})) give_up(start, what, peer);
}

// [snippet give_up]
/// Throws `rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1`.
void Waiting::give_up(Clock::time_point start, const std::string& awaited, int peer) const {
  const double waited = std::chrono::duration<double>(Clock::now() - start).count();
  const auto failure = lane_.failure();
  throw Error(text("rank ", run_.rank, ": waited ", std::round(waited * 10) / 10, " s for ",
                   awaited, " of rank ", peer, "; rank ", peer, " was ", place_of(peer),
                   failure ? "; stopped by " + report(failure->rank, failure->what) : "", '\n',
                   run_.mark(cell_)));
}
// [end snippet]

/// The rank that a message depends on: its peer, or the first of the group that has not reached it.
int Waiting::awaited_rank(int cell) const {
  const Instruction x = run_.at(cell);
  if (travels(x)) return x.peer;
  if (!meets(x)) return run_.rank;  // a fold, whose recv is done
  int other = x.peer;
  const std::vector<int> own = run_.cells_with(run_.rank, x);  // gathers can be equal
  const auto number = static_cast<std::size_t>(std::ranges::find(own, cell) - own.begin());
  for (int rank : run_.plan.groups[x.peer]) {
    if (rank == run_.rank) continue;
    other = rank;
    const std::vector<int> cells = run_.cells_with(rank, x);
    const int there = number < cells.size() ? cells[number] : run_.cells_of(rank);
    const Position place = transport_.position(rank);
    if (!is_in_plan(place, rank) || place.cell <= there) return rank;
  }
  return other;
}

bool Waiting::is_in_plan(const Position& place, int rank) const {
  return place.plan == run_.number && place.cell <= run_.cells_of(rank);
}

std::string Waiting::place_of(int rank) const {
  const Position place = transport_.position(rank);
  if (!place.is_known()) return "never heard of";
  const std::string in_plan = !is_in_plan(place, rank) ? "not in this plan yet"
                              : place.cell == run_.cells_of(rank)
                                  ? "at the end of its row"
                                  : "at " + print(run_.at(rank, place.cell));
  return parallel::place_of(transport_, rank, in_plan);
}

}  // namespace plangrad::parallel
