// A row's facts are found once per plan, so that no cell looks them up.
// Chapters 04, 05 and 08.
#include "parallel/engine/row_run.h"

#include <algorithm>

#include "parallel/transports/transport.h"

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

namespace {

Collective list_of(Joint what, const Summing& how, int member, int members) {
  switch (what) {
    case Joint::all_reduce: return all_reduce(how, member, members);
    case Joint::reduce_scatter: return reduce_scatter(how, member, members);
    case Joint::all_gather: break;
  }
  return all_gather(how, member, members);
}

}  // namespace

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
  const std::int64_t piece =
      encoding.codec ? CollectiveRun::default_piece : engine.transport().piece_bytes();
  const Collective steps = list_of(what, summing, static_cast<int>(member), members);
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group), piece, encoding);
}

}  // namespace plangrad::parallel
